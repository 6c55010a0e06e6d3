# From decode folders to a table, a file a step: what did not change is not done again.
#
#   DEV  := exp/asr/decode_dev --ref data/dev/text
#   TEST := exp/asr/decode_test --ref data/test/text
#   include $(shell rescore recipe)
#
# Then `make` scores both sets, tunes on DEV, reranks TEST, and writes $(OUT)/RESULTS.md. Several test sets:
# TESTS := clean other, and TEST_clean, TEST_other instead of TEST. A path with a blank is quoted as in a shell:
# DEV := 'my decode' --ref 'my text'.

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

_results := $(TESTS:%=$(OUT)/%.results.json)
_score = $(addprefix --lm ,$(LM)) --count-tokens $(SCORE_OPTIONS)

.PHONY: rescore _always
.DELETE_ON_ERROR:

rescore: $(OUT)/RESULTS.md

$(OUT)/RESULTS.md: $(_results)
	$(RESCORE) report $^ -o $@
	@cat $@

# A stamp says what a step was made from: names, sizes and times of files, options, the version. It is looked at each
# time, and written only where that changed. File names never get to make, which would take `$(...)` in them for its own.
$(OUT)/dev.stamp: _always
	@$(RESCORE) recipe --stamp $@ -- $(DEV) $(_score)

$(OUT)/dev.scored.jsonl.gz: $(OUT)/dev.stamp
	$(RESCORE) score $(DEV) $(_score) $(addprefix --cache ,$(CACHE)) -o $@

$(OUT)/tune.stamp: _always
	@$(RESCORE) recipe --stamp $@ -- $(MEASURE_OPTIONS) $(TUNE_OPTIONS)

$(OUT)/weights.json: $(OUT)/dev.scored.jsonl.gz $(OUT)/tune.stamp
	$(RESCORE) tune $< $(MEASURE_OPTIONS) $(TUNE_OPTIONS) -o $@

define _test_set
$(OUT)/$(1).stamp: _always
	@$(RESCORE) recipe --stamp $$@ -- $$(TEST_$(1)) $$(_score)

$(OUT)/$(1).scored.jsonl.gz: $(OUT)/$(1).stamp
	$(RESCORE) score $$(TEST_$(1)) $$(_score) $(addprefix --cache ,$(CACHE)) -o $$@

$(OUT)/$(1).results.json: $(OUT)/$(1).scored.jsonl.gz $(OUT)/weights.json
	$(RESCORE) rerank $$< --weights $(OUT)/weights.json $(MEASURE_OPTIONS) --dataset $(1) --best $(OUT)/$(1).trn --report $$@
endef
$(foreach set,$(TESTS),$(eval $(call _test_set,$(set))))
