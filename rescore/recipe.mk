# From decode folders to a table, one file per step: what did not change is not done again.
#
#   DEV  := exp/asr/decode_dev --ref data/dev/text
#   TEST := exp/asr/decode_test --ref data/test/text
#   include $(shell rescore recipe)
#
# Then `make` scores both sets, tunes on DEV, reranks TEST, and writes $(OUT)/RESULTS.md. Several test sets:
# TESTS := clean other, and TEST_clean, TEST_other instead of TEST; each may have dev lists of its own, DEV_clean,
# DEV_other. With several language models in LM each has a row, and all together.
# A path with a blank is quoted as in a shell: DEV := 'my decode' --ref 'my text'. `make -j` does several steps at once.

RESCORE ?= rescore
OUT ?= rescored
LM ?= tta
# Scores are kept, and looked up where all language models are together; CACHE= keeps none.
CACHE ?= $(OUT)/cache
# Options of `rescore score` (for one set they stand behind its lists), of `rescore tune`, of both `tune` and `rerank`,
# and of `report`.
SCORE_OPTIONS ?=
TUNE_OPTIONS ?=
MEASURE_OPTIONS ?=
REPORT_OPTIONS ?=

TESTS ?= test
TEST_test ?= $(TEST)
DEV_dev ?= $(DEV)

# The name of the dev set that a test set is tuned on.
_dev_of = $(if $(DEV_$(1)),$(1),dev)
_devs := $(sort $(foreach set,$(TESTS),$(call _dev_of,$(set))))
# .lm1, .lm2, ... where there are several language models. Not at once: a Makefile may set LM behind the include.
_each = $(if $(word 2,$(LM)),$(addprefix .lm,$(shell seq $(words $(LM)))))
_results = $(foreach set,$(_devs:%=%.dev) $(TESTS),$(_each:%=$(OUT)/$(set)%.results.json) $(OUT)/$(set).results.json)

.PHONY: rescore all _always
.DELETE_ON_ERROR:

rescore: $(OUT)/RESULTS.md

all: rescore

# Expanded a second time when all of the Makefile has been read.
.SECONDEXPANSION:
$(OUT)/RESULTS.md: $$(_results) $(OUT)/report.stamp
	$(RESCORE) report $(_results) $(REPORT_OPTIONS) -o $@
	@cat $@

# A stamp holds the paths and options of a step. It is written anew if these changed, or if a file is newer that they
# name: by itself, in a folder, behind `--option=` or behind `KIND:`. File names never get to make, which would take
# `$(...)` in them for its own. The plus sign and $(shell) let `make -n` look at stamps, too: it prints the steps that
# are to be done, and no others.
_stamp = $(shell mkdir -p $(OUT); \
  printf '%s\n' $(1) | cmp -s - $@ && \
  ! printf '%s\n' $(1) | sed 's/^--[^=]*=//; p; s/.*://' | \
    while IFS= read -r path; do find -L "$$path" -newer $@ 2> /dev/null; done | grep -q . || \
  printf '%s\n' $(1) > $@)

$(OUT)/tune.stamp: _always
	+@$(call _stamp,$(MEASURE_OPTIONS) $(TUNE_OPTIONS))

$(OUT)/report.stamp: _always
	+@$(call _stamp,$(REPORT_OPTIONS) $(notdir $(_results)))

# $(1): the lists' name in files; $(2): the variable that has them.
define _scored
$(OUT)/$(1).stamp: _always
	+@$$(call _stamp,$$($(2)) $$(LM) $$(SCORE_OPTIONS))

$(OUT)/$(1).lm%.scored.jsonl.gz: $(OUT)/$(1).stamp
	$$(RESCORE) score $$($(2)) --lm $$(word $$*,$$(LM)) $$(SCORE_OPTIONS) $$(addprefix --cache ,$$(CACHE)) -o $$@

$(OUT)/$(1).scored.jsonl.gz: $(OUT)/$(1).stamp $$$$(addprefix $(OUT)/$(1),$$$$(addsuffix .scored.jsonl.gz,$$$$(_each)))
	$$(RESCORE) score $$($(2)) $$(addprefix --lm ,$$(LM)) $$(SCORE_OPTIONS) $$(addprefix --cache ,$$(CACHE)) -o $$@
endef

# $(1): the dev set; $(2): .lm% for each language model, or nothing for all together.
define _tuned
$(OUT)/$(1)$(2).weights.json: $(OUT)/$(1).dev$(2).scored.jsonl.gz $(OUT)/tune.stamp
	$$(RESCORE) tune $$< $$(MEASURE_OPTIONS) $$(TUNE_OPTIONS) -o $$@
endef

# $(1): the lists; $(2): as above; $(3): the dev set.
define _reranked
$(OUT)/$(1)$(2).results.json: $(OUT)/$(1)$(2).scored.jsonl.gz $(OUT)/$(3)$(2).weights.json
	$(RESCORE) rerank $$< --weights $$(word 2,$$^) $$(MEASURE_OPTIONS) --dataset $(patsubst dev.dev,dev,$(1)) \
		--best $$(@:.results.json=.trn) --report $$@
endef

$(foreach dev,$(_devs),$(eval $(call _scored,$(dev).dev,DEV_$(dev))))
$(foreach set,$(TESTS),$(eval $(call _scored,$(set),TEST_$(set))))
$(foreach dev,$(_devs),$(eval $(call _tuned,$(dev),))$(eval $(call _tuned,$(dev),.lm%)))
$(foreach dev,$(_devs),$(eval $(call _reranked,$(dev).dev,,$(dev)))$(eval $(call _reranked,$(dev).dev,.lm%,$(dev))))
$(foreach set,$(TESTS),$(eval $(call _reranked,$(set),,$(call _dev_of,$(set))))\
  $(eval $(call _reranked,$(set),.lm%,$(call _dev_of,$(set)))))
# Not intermediate: kept.
.PRECIOUS: $(_devs:%=$(OUT)/%.lm%.weights.json)
