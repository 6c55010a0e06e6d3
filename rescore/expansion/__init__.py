"""From the hypotheses of a list to new ones.

`recombine` combines what hypotheses have in different places. `Respeller` replaces misspelled words by words of a
lexicon; a `Channel` gives the probability of each mishearing.
"""

from rescore.expansion.channel import Channel
from rescore.expansion.recombine import recombine
from rescore.expansion.respell import Candidate, Proposer, Respeller, Respelling, with_listed
from rescore.lms.lexicon import Lexicon

__all__ = ["Candidate", "Channel", "Lexicon", "Proposer", "Respeller", "Respelling", "recombine", "with_listed"]
