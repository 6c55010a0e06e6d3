"""Letters of the scripts that put no blanks between words.

`data/make_unspaced.py` writes the table from Unicode's properties.
"""

SOUTHEAST_ASIAN = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0e82\u0e84-\u0e84"
    "\u0e86-\u0e8a\u0e8c-\u0ea3\u0ea5-\u0ea5\u0ea7-\u0ebd"
    "\u0ec0-\u0ec4\u0ec6-\u0ec6\u0ec8-\u0ece\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u108f\u109a-\u109f\u1780-\u17d3"
    "\u17d7-\u17d7\u17dc-\u17dd\u1950-\u196d\u1970-\u1974"
    "\u1980-\u19ab\u19b0-\u19c9\u19de-\u19df\u1a20-\u1a5e"
    "\u1a60-\u1a7c\u1aa0-\u1aad\ua9e0-\ua9ef\ua9fa-\ua9fe"
    "\uaa60-\uaac2\uaadb-\uaadf\U00011700-\U0001171a\U0001171d-\U0001172b"
    "\U0001173a-\U0001173b\U0001173f-\U00011746"
)
"""Letters of Thai, Lao, Burmese, Khmer and scripts of their neighbours."""
MARKS = (
    "\u0e31-\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1-\u0eb1"
    "\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u1056-\u1059"
    "\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074"
    "\u1082-\u108d\u108f-\u108f\u109a-\u109d\u17b4-\u17d3"
    "\u17dd-\u17dd\u1a55-\u1a5e\u1a60-\u1a7c\ua9e5-\ua9e5"
    "\uaa7b-\uaa7d\uaab0-\uaab0\uaab2-\uaab4\uaab7-\uaab8"
    "\uaabe-\uaabf\uaac1-\uaac1\U0001171d-\U0001172b"
)
"""Those of them that belong to the letter before: vowels and tones."""
# --- end of the table

UNSPACED_LETTERS = (
    "\u0e00-\u0e7f"  # Thai, with its digits
    "\u3040-\u30ff\uff66-\uff9f"  # Hiragana and Katakana
    # Chinese characters
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    + SOUTHEAST_ASIAN
)
"""Ranges of the letters of Chinese, Japanese, Thai, Lao, Khmer and Burmese, which put
no blanks between words.
"""
