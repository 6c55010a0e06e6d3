"""From the hypotheses of a list to new ones.

`recombine` combines what hypotheses have in different places. `Respeller` puts words of a lexicon where a recogniser
wrote some that no text has; a `Channel` says how likely each was misheard so.
"""

from rescore.expansion.channel import Channel
from rescore.expansion.recombine import recombine
from rescore.expansion.respell import Candidate, Proposer, Respeller, Respelling
from rescore.lms.lexicon import Lexicon

__all__ = ["Candidate", "Channel", "Lexicon", "Proposer", "Respeller", "Respelling", "recombine"]
