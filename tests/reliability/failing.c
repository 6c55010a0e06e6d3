/* A file system that fails: preloaded, it lets calls on paths with FAIL_PATH fail with FAIL_ERRNO.

   FAIL_CALLS are letters: o(pen to write), w(rite), s(ync), r(ename), m(kdir). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(char call, const char *path) {
    const char *calls = getenv("FAIL_CALLS"), *where = getenv("FAIL_PATH"), *number = getenv("FAIL_ERRNO");
    if (!calls || !where || !number || !path || !strchr(calls, call) || !strstr(path, where)) return 0;
    errno = atoi(number);
    return 1;
}

static int fails_at(char call, int file) {
    char link[64], path[4096];
    if (!getenv("FAIL_CALLS")) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fails(call, path);
}

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))
#define MODE mode_t mode = 0; if (flags & (O_CREAT | __O_TMPFILE)) \
    { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
#define OPEN(name) int name(const char *path, int flags, ...) { MODE \
    if ((flags & O_ACCMODE) != O_RDONLY && fails('o', path)) return -1; \
    return REAL(#name, int (*)(const char *, int, mode_t))(path, flags, mode); }
OPEN(open)
OPEN(open64)
#define OPENAT(name) int name(int folder, const char *path, int flags, ...) { MODE \
    if ((flags & O_ACCMODE) != O_RDONLY && fails('o', path)) return -1; \
    return REAL(#name, int (*)(int, const char *, int, mode_t))(folder, path, flags, mode); }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *data, size_t size) {
    return fails_at('w', file) ? -1 : REAL("write", ssize_t (*)(int, const void *, size_t))(file, data, size);
}
#define PWRITE(name, offset_type) ssize_t name(int file, const void *data, size_t size, offset_type at) { \
    return fails_at('w', file) ? -1 : REAL(#name, ssize_t (*)(int, const void *, size_t, offset_type))(file, data, size, at); }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
#define SYNC(name) int name(int file) { return fails_at('s', file) ? -1 : REAL(#name, int (*)(int))(file); }
SYNC(fsync)
SYNC(fdatasync)
int rename(const char *from, const char *to) {
    return fails('r', from) || fails('r', to) ? -1 : REAL("rename", int (*)(const char *, const char *))(from, to);
}
int mkdir(const char *path, mode_t mode) {
    return fails('m', path) ? -1 : REAL("mkdir", int (*)(const char *, mode_t))(path, mode);
}
