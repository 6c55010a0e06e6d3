# From decode folders to a table, a file a step: what did not change is not done again.
#
#   DEV  := exp/asr/decode_dev --ref data/dev/text
#   TEST := exp/asr/decode_test --ref data/test/text
#   include $(shell rescore recipe)
#
# Then `make` scores both sets, tunes on DEV, reranks TEST, and writes $(OUT)/RESULTS.md. Several test sets:
# TESTS := clean other, and TEST_clean, TEST_other instead of TEST.

RESCORE ?= rescore
OUT ?= rescored
LM ?= tta
# Scores are kept and looked up; CACHE= keeps none.
CACHE ?= $(OUT)/cache
# Options of `rescore score`, of `rescore tune`, and of both `tune` and `rerank`.
SCORE_OPTIONS ?=
TUNE_OPTIONS ?=
MEASURE_OPTIONS ?=

TESTS ?= test
TEST_test ?= $(TEST)

# A set is a path and options; it changed when a file under the path, or one that an option names, did.
_files = $(if $(wildcard $(1)),$(shell find -L $(wildcard $(1)) -type f))
_results := $(TESTS:%=$(OUT)/%.results.json)

.PHONY: rescore
rescore: $(OUT)/RESULTS.md

$(OUT)/RESULTS.md: $(_results)
	$(RESCORE) report $^ -o $@
	@cat $@

$(OUT):
	mkdir -p $@

$(OUT)/dev.scored.jsonl.gz: $(call _files,$(DEV)) | $(OUT)
	$(RESCORE) score $(DEV) $(addprefix --lm ,$(LM)) $(addprefix --cache ,$(CACHE)) $(SCORE_OPTIONS) -o $@

$(OUT)/weights.json: $(OUT)/dev.scored.jsonl.gz
	$(RESCORE) tune $< $(MEASURE_OPTIONS) $(TUNE_OPTIONS) -o $@

define _test_set
$(OUT)/$(1).scored.jsonl.gz: $(call _files,$(TEST_$(1))) | $(OUT)
	$(RESCORE) score $(TEST_$(1)) $(addprefix --lm ,$(LM)) $(addprefix --cache ,$(CACHE)) $(SCORE_OPTIONS) -o $$@

$(OUT)/$(1).results.json: $(OUT)/$(1).scored.jsonl.gz $(OUT)/weights.json
	$(RESCORE) rerank $$< --weights $(OUT)/weights.json $(MEASURE_OPTIONS) --dataset $(1) --best $(OUT)/$(1).trn --report $$@
endef
$(foreach set,$(TESTS),$(eval $(call _test_set,$(set))))
