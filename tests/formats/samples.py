"""Files as toolkits write them. Each names where its form is documented."""

from __future__ import annotations

import json

from tests.formats.scorers import WRITERS

SAMPLES: dict[str, dict[str, str]] = {
    # kaldi: egs/wsj/s5/steps/rnnlmrescore.sh, the archives that nbest-to-linear writes.
    "kaldi": {
        "nbest/archives.1/words_text": "spk-a-1 HELLO WORLD\nspk-a-2 HOLLOW WORLD\n",
        "nbest/archives.1/acwt": "spk-a-1 120.0\nspk-a-2 108.0\n",
        "nbest/archives.1/lmwt.withlm": "spk-a-1 3.0\nspk-a-2 5.0\n",
        "nbest/archives.1/lmwt.nolm": "spk-a-1 1.0\nspk-a-2 1.5\n",
        "nbest/archives.2/words_text": "spk-b-1 YES\n",
        "nbest/archives.2/acwt": "spk-b-1 12.0\n",
        "nbest/archives.2/lmwt.withlm": "spk-b-1 0.5\n",
        "nbest/archives.2/lmwt.nolm": "spk-b-1 0.25\n",
    },
    # hocr: src/api/hocrrenderer.cpp of Tesseract, with lstm_choice_mode=2.
    "hocr": {
        "page.hocr": (
            "<?xml version='1.0'?>\n<div class='ocr_page' id='page_1'><span"
            " class='ocr_line' id='line_1_1'><span class='ocrx_word' title='bbox 0 0 1"
            " 1; x_wconf 90'>odd<span class='ocrx_cinfo' id='lstm_choices_1_1_1'><span"
            " class='ocrx_cinfo' title='x_confs 75'>o</span><span class='ocrx_cinfo'"
            " title='x_confs 25'>e</span></span><span class='ocrx_cinfo'"
            " id='lstm_choices_1_1_2'><span class='ocrx_cinfo' title='x_confs"
            " 99'>dd</span></span></span></span></div>\n"
        )
    },
    # alto: the schema of ALTO 4.4.
    "alto": {
        "page.xml": (
            '<alto><TextLine ID="l1"><String CONTENT="odd" WC="0.9"><Glyph CONTENT="o"'
            ' GC="0.5"><Variant CONTENT="e" VC="0.25"/></Glyph><Glyph CONTENT="dd"'
            ' GC="1"/></String></TextLine></alto>\n'
        )
    },
    # page: the schema of PAGE, 2019-07-15.
    "page": {
        "page.xml": (
            '<PcGts><TextLine id="l1"><TextEquiv index="1"'
            ' conf="0.5"><Unicode>odd</Unicode></TextEquiv><TextEquiv index="2"'
            ' conf="0.25"><Unicode>edd</Unicode></TextEquiv></TextLine></PcGts>\n'
        )
    },
    # srilm: nbest-format(5), and NBestHyp::parse in lm/src/NBest.cc.
    "srilm": {
        "nbest/u1": "-10 -2 2 hello world\n-8 -3 3 <s> hollow -pau- world </s>\n",
        "nbest/u2": "0 -4 1 yes\n0 -5 2 yes sir\n",
    },
    # icefall: store_transcripts in icefall/utils.py.
    "icefall": {
        "recogs-test.txt": (
            "cut-1:\tref=['HELLO', 'WORLD']\ncut-1:\thyp=['HOLLOW', 'WORLD']\n"
            "cut-2:\tref=[]\ncut-2:\thyp=['A']\n"
        )
    },
    # sherpa-onnx: documentation of sherpa-onnx-offline, results of decoding files.
    "sherpa": {
        "log": (
            'Creating recognizer ...\nDone!\n./wavs/0.wav\n{"lang": "", "text": " HELLO'
            ' WORLD", "timestamps": [0.1, 0.4], "tokens":[" HELLO", " WORLD"],'
            ' "ys_log_probs": [-0.25, -0.5], "words": []}\n----\n./wavs/1.wav\n{"text":'
            ' "", "timestamps": [], "tokens": []}\n'
        )
    },
    # wenet: runtime/core/bin/decoder_main.cc with --output_nbest.
    "wenet": {
        "nbest.txt": (
            "wav u1\ncandidate -1.5 a b\ncandidate -2.25 a\nwav u2\ncandidate -3 c\n"
        )
    },
    # whisper: whisper/transcribe.py; avg_logprob is the sum over tokens by their number
    # and one.
    "whisper": {
        "talk.json": json.dumps(
            {
                "text": " Hello world. Bye.",
                "segments": [
                    {
                        "id": 0,
                        "start": 0.0,
                        "end": 1.0,
                        "text": " Hello world.",
                        "tokens": [1, 2, 3],
                        "avg_logprob": -0.5,
                    },
                    {
                        "id": 1,
                        "start": 1.0,
                        "end": 2.0,
                        "text": " Bye.",
                        "tokens": [4],
                        "avg_logprob": -1.0,
                    },
                ],
                "language": "en",
            }
        )
    },
    # parakeet: the JSON of parakeet.cpp's beam search.
    "parakeet": {
        "talk.json": (
            '{"beam_size":2,"score_norm":true,"frame_sec":0.080000,"hypotheses":[{"text":"hello'
            ' world","score":-1.500000,"normalized_score":-0.750000,'
            '"tokens":[{"id":5,"frame":3,"t":0.240,'
            '"duration_frames":1,"duration":0.080}]},'
            '{"text":"hollow'
            ' world","score":-2.250000,"normalized_score":-1.125000,"tokens":[]}]}\n'
        )
    },
    # brain-to-text: the field `scoring` of the language model server's answers, a line
    # per trial.
    "brain-to-text": {
        "rows.txt": (
            "i am fine;-10.5;-7;-20;-14.25;i'm"
            " fine;-11;-8;-21;-15\n\nyes;-1;-2;0;-1.5\n"
        ),
    },
    # speech: detailed output of Azure's speech-to-text REST API.
    "speech": {
        "call.json": (
            '{"RecognitionStatus": "Success", "NBest": [{"Confidence": 1.0, "Lexical":'
            ' "hello", "Display": "Hello."}, {"Confidence": 0.5, "Lexical": "hollow",'
            ' "Display": "Hollow."}]}'
        )
    },
    # hf: the fields of transformers' GenerateBeamEncoderDecoderOutput, decoded, one per
    # line.
    "hf": {
        "g.jsonl": (
            '{"id": "a", "sequences": ["hello", "hollow"], "sequences_scores": [-0.5,'
            ' -1], "labels": "hello"}\n'
        )
    },
    # sockeye: test/unit/test_output_handler.py, JSON output with nbest; scores are
    # negative logs.
    "sockeye": {
        "o.json": (
            '{"sentence_id": 1, "translation": "ein Test", "score": 0.0,'
            ' "translations": ["ein Test", "der Test"], "scores": [0.0,'
            ' 0.1]}\n{"sentence_id": 2, "translation": "a", "score": 1, "translations":'
            ' ["a"], "scores": [[1.0]]}\n'
        )
    },
    # nemo: manifests of transcribe_speech.py, with beams as [text, score].
    "nemo": {
        "m.json": (
            '{"audio_filepath": "/x/utt1.wav", "duration": 1.5, "text": "hello",'
            ' "beams": [["hello", -1.5], ["hollow", -2]]}\n{"audio_filepath":'
            ' "/x/utt2.wav", "duration": 1.5, "text": "bye", "pred_text": "by"}\n'
        )
    },
    # nemo-beams: eval_beamsearch_ngram.py and eval_neural_rescorer.py,
    # `beam_candidate_text \t score`.
    "nemo-beams": {
        "preds_out_width2_alpha0_beta0.tsv": (
            "hello world\t-1.5\nhollow world\t-2.5\n\t-0.5\na\t-7\n"
        )
    },
    # hyporadise: the released JSON files.
    "hyporadise": {
        "test.json": (
            '[{"input": ["hello", "hollow"], "output": "hello", "am_score": [-0.5,'
            " -0.25]}]"
        )
    },
    "csv": {
        "l.csv": (
            'utt,hyp,score,lm\nu1,"hello, world",-1.5,-9\nu1,hollow'
            " world,-2,-12.5\nu2,yes,-1,-3\n"
        )
    },
    "tsv": {
        "l.tsv": (
            "id\ttext\tlogp\tref\nu1\thello world\t-1.5\thello\nu1\thollow\t-2\thello\n"
        )
    },
    "json": {
        "l.json": (
            '[["hello", "hollow"], [["yes", -1.0], ["no", -2.0]], [{"text": "a",'
            ' "score": -1}]]'
        )
    },
}
"""Formats, and the files of one path by their names."""
SAMPLES |= {
    name: {"scored.txt": write([("u1", ("a b", "a c")), ("u2", ("", "d"))])}
    for name, write in WRITERS.items()
}
