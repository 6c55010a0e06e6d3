"""A tiny document of each shape, in the form of the service's public documentation, and
its lists: the id, and the text, score and number of times of each hypothesis.
"""

from __future__ import annotations

import math
from typing import Any

HALF = math.log(0.5)
_ITEM = {"type": "word", "start_time": 0.1, "end_time": 0.4}
_OWL = {"start": 0.1, "end": 0.4}

SAMPLES: dict[str, tuple[Any, list[Any]]] = {
    "deepgram": (
        {
            "metadata": {"request_id": "r", "channels": 2, "models": ["m"]},
            "results": {
                "channels": [
                    {
                        "alternatives": [
                            {
                                "transcript": "An owl.",
                                "confidence": 0.5,
                                "words": [
                                    {"word": "an", "punctuated_word": "An"} | _OWL,
                                    {"word": "owl", "punctuated_word": "owl."} | _OWL,
                                ],
                            }
                        ]
                    },
                    {
                        "alternatives": [
                            {"transcript": "", "confidence": 0.0, "words": []}
                        ]
                    },
                ]
            },
        },
        [("call-1", [("An owl.", HALF, 2)]), ("call-2", [("", 0.0, 0)])],
    ),
    "speechmatics": (
        {
            "format": "2.9",
            "job": {"id": "j", "duration": 2},
            "metadata": {"language_pack_info": {"word_delimiter": " "}},
            "results": [
                _ITEM | {"alternatives": [{"confidence": 0.5, "content": "An"}]},
                _ITEM | {"alternatives": [{"confidence": 1.0, "content": "owl"}]},
                {
                    "type": "punctuation",
                    "attaches_to": "previous",
                    "alternatives": [{"confidence": 1.0, "content": "."}],
                },
            ],
        },
        [("call", [("An owl.", HALF, 2)])],
    ),
    "aws-alternatives": (
        {
            "jobName": "j",
            "results": {
                "transcripts": [{"transcript": "an owl"}],
                "segments": [
                    {
                        "start_time": "0.1",
                        "alternatives": [
                            {
                                "transcript": "an owl",
                                "items": [
                                    {
                                        "type": "pronunciation",
                                        "content": word,
                                        "start_time": "0.1",
                                        "end_time": "0.4",
                                    }
                                    for word in ("an", "owl")
                                ],
                            },
                            {"transcript": "a cowl", "items": []},
                        ],
                    }
                ],
            },
        },
        [("call", [("an owl", 0.0, 2), ("a cowl", -math.log(2), 0)])],
    ),
    "aws": (
        {
            "jobName": "j",
            "results": {
                "transcripts": [{"transcript": "Owl."}],
                "items": [
                    {
                        "type": "pronunciation",
                        "start_time": "0.1",
                        "end_time": "0.4",
                        "alternatives": [{"confidence": "0.9", "content": "Owl"}],
                    },
                    {
                        "type": "punctuation",
                        "alternatives": [{"confidence": "0.0", "content": "."}],
                    },
                ],
            },
        },
        [("call", [("Owl.", 0.0, 1)])],
    ),
    # diarisation: the last result repeats all words with speakers, without a text
    "google": (
        {
            "results": [
                {
                    "alternatives": [
                        {
                            "transcript": "an owl",
                            "confidence": 0.5,
                            "words": [
                                {"word": "an", "endTime": "0.3s"},
                                {"word": "owl", "startTime": "0.3s", "endTime": "1s"},
                            ],
                        }
                    ],
                    "languageCode": "en-us",
                },
                {"alternatives": [{}]},
                {"languageCode": "en-us"},
                {
                    "alternatives": [
                        {"words": [{"word": "an", "endTime": "0.3s", "speakerTag": 1}]}
                    ]
                },
            ],
            "speechAdaptationInfo": {"timeoutMessage": "none"},
            "metadata": {"totalBilledDuration": "1s"},
        },
        [("call", [("an owl", HALF, 2)])],
    ),
    "google-operation": (
        {
            "name": "7",
            "done": True,
            "response": {
                "results": [
                    {"alternatives": [{"transcript": "an owl", "confidence": 0.5}]}
                ]
            },
        },
        [("call", [("an owl", HALF, 0)])],
    ),
    "google-phrase": (
        {"alternatives": [{"transcript": "an owl", "confidence": 0.5}]},
        [("call", [("an owl", HALF, 0)])],
    ),
    "azure": (
        {
            "RecognitionStatus": "Success",
            "NBest": [
                {
                    "Confidence": 0.5,
                    "Lexical": "an owl",
                    "Words": [
                        {"Word": "an", "Offset": 100, "Duration": 900},
                        {"Word": "owl", "Offset": 1000, "Duration": 900},
                    ],
                }
            ],
        },
        [("call", [("an owl", HALF, 2)])],
    ),
    "azure-batch": (
        {
            "source": "https://x/call.wav",
            "combinedRecognizedPhrases": [{"channel": 0, "lexical": "an owl"}],
            "recognizedPhrases": [
                {
                    "recognitionStatus": "Success",
                    "channel": 0,
                    "speaker": 1,
                    "offset": "PT0.3S",
                    "nBest": [
                        {
                            "confidence": 0.5,
                            "lexical": "an owl",
                            "words": [
                                {
                                    "word": word,
                                    "offset": "PT0.3S",
                                    "offsetInTicks": 3000000.0,
                                    "durationInTicks": 2000000.0,
                                }
                                for word in ("an", "owl")
                            ],
                        }
                    ],
                }
            ],
        },
        [("call.1", [("an owl", HALF, 2)])],
    ),
    "azure-fast": (
        {
            "durationMilliseconds": 2000,
            "combinedPhrases": [{"text": "An owl."}],
            "phrases": [
                {
                    "offsetMilliseconds": 100,
                    "durationMilliseconds": 800,
                    "text": "An owl.",
                    "words": [
                        {
                            "text": word,
                            "offsetMilliseconds": 100,
                            "durationMilliseconds": 300,
                        }
                        for word in ("An", "owl.")
                    ],
                    "locale": "en-US",
                    "confidence": 0.5,
                }
            ],
        },
        [("call", [("An owl.", HALF, 2)])],
    ),
    "assemblyai": (
        {
            "id": "5551722-f677",
            "audio_url": "https://x/call.wav",
            "status": "completed",
            "text": "An owl.",
            "words": [
                {"text": "An", "start": 100, "end": 300, "confidence": 0.9},
                {"text": "owl.", "start": 300, "end": 700, "confidence": 0.9},
            ],
            "confidence": 0.5,
        },
        [("call", [("An owl.", HALF, 2)])],
    ),
    "elevenlabs": (
        {
            "language_code": "en",
            "language_probability": 0.98,
            "text": "An owl.",
            "words": [
                {"text": "An", "type": "word", "logprob": -0.5} | _OWL,
                {"text": " ", "type": "spacing", "logprob": 0.0} | _OWL,
                {"text": "owl.", "type": "word", "logprob": -0.25} | _OWL,
            ],
        },
        [("call", [("An owl.", -0.75, 2)])],
    ),
    "elevenlabs-channels": (
        {
            "transcripts": [
                {
                    "channel_index": channel,
                    "language_code": "en",
                    "text": "owl",
                    "words": [{"text": "owl", "type": "word", "logprob": -0.5} | _OWL],
                }
                for channel in (0, 1)
            ]
        },
        [("call-1", [("owl", -0.5, 1)]), ("call-2", [("owl", -0.5, 1)])],
    ),
    "vosk": (
        {
            "alternatives": [
                {
                    "confidence": 231.5,
                    "result": [{"word": "owl"} | _OWL],
                    "text": "owl",
                }
            ]
        },
        [("call", [("owl", 231.5, 1)])],
    ),
    "vosk-words": (
        {"result": [{"word": "owl", "conf": 0.5} | _OWL], "text": "owl"},
        [("call", [("owl", 0.0, 1)])],
    ),
    "bbc-kaldi": (
        {
            "text": "an owl",
            "punct": "An owl.",
            "words": [
                {"word": "an", "punct": "An", "confidence": 0.5, "index": 0} | _OWL,
                {"word": "owl", "punct": "owl.", "confidence": 0.5, "index": 1} | _OWL,
            ],
        },
        [("call", [("An owl.", 0.0, 2)])],
    ),
    "bbc-kaldi-retval": (
        {
            "action": "audio-transcribe",
            "retval": {
                "status": True,
                "punct": "An owl.",
                "words": [
                    {"word": "an", "punct": "An"} | _OWL,
                    {"word": "owl", "punct": "owl."} | _OWL,
                ],
            },
        },
        [("call", [("An owl.", 0.0, 2)])],
    ),
    # marks of punctuation share the time of the letter before them
    "funasr": (
        [
            {
                "key": "asr_example",
                "text": "欢迎。来 owl。",
                "timestamp": [[100, 200], [200, 300], [300, 400], [400, 900]],
                "sentence_info": [{"text": "欢迎。", "start": 100, "end": 300}],
            },
            {
                "key": "b",
                "text": "<|zh|><|NEUTRAL|>开放。",
                "timestamp": [[630, 690], [690, 750]],
                "words": ["开", "放"],
            },
        ],
        [
            ("asr_example", [("欢迎。来 owl。", 0.0, 5)]),
            ("b", [("开放。", 0.0, 3)]),
        ],
    ),
    "funasr-sentences": (
        {
            "key": "a",
            "text": "an owl. it flew.",
            "sentence_info": [
                {
                    "text": "an owl.",
                    "start": 100,
                    "end": 400,
                    "timestamp": [[100, 200], [200, 400]],
                },
                {"text": "it flew.", "start": 500, "end": 900, "timestamp": []},
            ],
        },
        [("a", [("an owl. it flew.", 0.0, 4)])],
    ),
    "whisperx": (
        {
            "segments": [{"start": 0.1, "end": 0.4, "text": " An owl."}],
            "word_segments": [
                {"word": "An", "score": 0.5} | _OWL,
                {"word": "owl.", "score": 0.5} | _OWL,
            ],
        },
        [("call", [("An owl.", 0.0, 2)])],
    ),
    # WhisperX gives no times to numbers
    "whisper": (
        {
            "segments": [
                {
                    "start": 0.1,
                    "text": " An owl in 2023 flew.",
                    "words": [
                        {"word": "An"} | _OWL,
                        {"word": "owl"} | _OWL,
                        {"word": "in"} | _OWL,
                        {"word": "2023"},
                        {"word": "flew.", "start": 0.9, "end": 1.0},
                    ],
                }
            ],
            "language": "en",
        },
        [("call", [("An owl in 2023 flew.", 0.0, 5)])],
    ),
    "whisper-list": (
        [{"text": " An owl", "avg_logprob": -0.5, "tokens": [1, 2], "start": 0.0}],
        [("call", [("An owl", -1.5, 0)])],
    ),
    # the full JSON (-ojf), also on one line
    "whisper-cpp": (
        {
            "systeminfo": "AVX = 1",
            "transcription": [
                {
                    "timestamps": {"from": "00:00:00,000", "to": "00:00:01,000"},
                    "offsets": {"from": 0, "to": 1000},
                    "text": " An owl",
                    "tokens": [
                        {
                            "text": " An",
                            "timestamps": {
                                "from": "00:00:00,000",
                                "to": "00:00:00,500",
                            },
                            "offsets": {"from": 0, "to": 500},
                            "p": 0.9,
                        }
                    ],
                }
            ],
        },
        [("call", [("An owl", 0.0, 2)])],
    ),
    "openai-words": (
        {
            "task": "transcribe",
            "language": "english",
            "duration": 2.0,
            "text": "An owl.",
            "words": [{"word": "An"} | _OWL, {"word": "owl"} | _OWL],
        },
        [("call", [("An owl.", 0.0, 2)])],
    ),
    "transformers": (
        {
            "text": " An owl",
            "chunks": [
                {"text": " An", "timestamp": [0.0, 0.5]},
                {"text": " owl", "timestamp": [0.5, None]},
            ],
        },
        [("call", [("An owl", 0.0, 2)])],
    ),
    "parakeet-mlx": (
        {
            "text": "An owl.",
            "sentences": [
                {
                    "text": "An owl.",
                    "start": 0.1,
                    "end": 0.9,
                    "tokens": [
                        {"text": " An"} | _OWL,
                        {"text": " ow"} | _OWL,
                        {"text": "l."} | _OWL,
                    ],
                }
            ],
        },
        [("call", [("An owl.", 0.0, 2)])],
    ),
    "parakeet": (
        {
            "frame_sec": 0.08,
            "hypotheses": [
                {"text": "owl", "score": -1.5, "words": [{"w": "owl"} | _OWL]},
                {"text": "cowl", "score": -2.5, "words": [{"w": "cowl"} | _OWL]},
            ],
        },
        [("call", [("owl", -1.5, 1), ("cowl", -2.5, 1)])],
    ),
    "sherpa": (
        {
            "text": " AN OWL",
            "timestamps": [0.1, 0.4],
            "tokens": [" AN", " OWL"],
            "ys_log_probs": [-0.25, -0.5],
        },
        [("1", [("AN OWL", -0.75, 2)])],
    ),
    "nemo": (
        {
            "audio_filepath": "/x/call.wav",
            "duration": 1.5,
            "text": "an owl",
            "pred_text": "a cowl",
            "timestamp": {
                "word": [
                    {"word": "a", "start_offset": 1, "end_offset": 4} | _OWL,
                    {"word": "cowl", "start_offset": 5, "end_offset": 9} | _OWL,
                ]
            },
        },
        [("/x/call.wav", [("a cowl", 0.0, 2)])],
    ),
    "openai-batch": (
        {
            "id": "batch_req_1",
            "custom_id": "u-7",
            "response": {
                "status_code": 200,
                "body": {
                    "object": "chat.completion",
                    "choices": [
                        {
                            "index": index,
                            "message": {"role": "assistant", "content": text},
                            "logprobs": {
                                "content": [
                                    {"token": "a", "logprob": -0.25},
                                    {"token": "b", "logprob": -0.5},
                                ]
                            },
                        }
                        for index, text in enumerate(("an owl", "a cowl"))
                    ],
                },
            },
            "error": None,
        },
        [("u-7", [("an owl", -0.75, 0), ("a cowl", -0.75, 0)])],
    ),
    "openai-answer": (
        {
            "id": "chatcmpl-7",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": text},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
                for index, text in enumerate(("an owl", "a cowl"))
            ],
            "usage": {"total_tokens": 9},
        },
        [("chatcmpl-7", [("an owl", 0.0, 0), ("a cowl", 0.0, 0)])],
    ),
    "openai-completion": (
        {
            "id": "cmpl-7",
            "object": "text_completion",
            "choices": [
                {"index": 0, "text": "an owl", "logprobs": {"token_logprobs": [-0.5]}},
                {"index": 1, "text": "a cowl", "logprobs": {"token_logprobs": [-1]}},
            ],
        },
        [("cmpl-7", [("an owl", -0.5, 0), ("a cowl", -1.0, 0)])],
    ),
    "ctranslate2": (
        {
            "hypotheses": [["▁an", "▁ow", "l"], ["▁owl", "5"]],
            "scores": [-0.5, -0.75],
            "attention": [],
        },
        [("call", [("an owl", -0.5, 0), ("owl5", -0.75, 0)])],
    ),
    "ctranslate2-generate": (
        {"sequences": [["▁an", "▁owl"]], "sequences_ids": [[4, 5]], "scores": [-0.5]},
        [("call", [("an owl", -0.5, 0)])],
    ),
}
