"""A3T, alignment-aware acoustic and text pretraining (Bai et al., ICML 2022; Bai's
thesis, chapter 4), and the CTC recogniser that aligns its texts.

In the order in which data flows: `utterances` reads recordings and their texts, `mel`
makes spectrograms. `ctc` has the algorithms of CTC, `ctc_network` a small network for
them, `recogniser` scores with it. `alignment` says which letter each frame belongs to.
`network` is A3T, `training` trains it, `scoring` scores hypotheses with it. `options`
and `kinds` are the way from the command line.
"""
