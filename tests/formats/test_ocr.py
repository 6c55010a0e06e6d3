"""Pages of OCR: lines with alternatives per word or letter become N-best lists."""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.formats.graphs import best_texts
from rescore.formats.ocr import LEAST
from rescore.formats.source import ReadOptions, Source, sniff
from rescore.nbest import NbestList
from tests.conftest import Run, assert_one_line_error

# Tesseract 5, src/api/hocrrenderer.cpp, with lstm_choice_mode=2; the first words with
# hocr_char_boxes=1.
HOCR = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
    "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head><title>a</title><meta name='ocr-system' content='tesseract 5.3.0' /></head>
 <body>
  <div class='ocr_page' id='page_1' title='image "a.png"; bbox 0 0 9 9; ppageno 0'>
     <span class='ocr_line' id='line_1_1' title="bbox 0 0 9 9; x_size 30">
      <span class='ocrx_word' id='word_1_1' title='bbox 0 0 4 9; x_wconf 90'>
       <span class='ocrx_cinfo' title='x_bboxes 0 0 1 1; x_conf 99.1'>c</span>
        <span class='ocrx_cinfo' id='lstm_choices_1_1_1'>
         <span class='ocrx_cinfo' id='choice_1_1_1' title='x_confs 75'>c</span>
         <span class='ocrx_cinfo' id='choice_1_1_2' title='x_confs 25'>e</span>
        </span>
       <span class='ocrx_cinfo' title='x_bboxes 1 0 2 1; x_conf 99.1'>at</span>
        <span class='ocrx_cinfo' id='lstm_choices_1_1_2'>
         <span class='ocrx_cinfo' id='choice_1_1_3' title='x_confs 100'>at</span>
        </span>
      </span>
      <span class='ocrx_word' id='word_1_2' title='bbox 5 0 9 9; x_wconf 80'>
       <em>n&nbsp;o</em>
       <span class='ocrx_cinfo' id='lstm_choices_1_2_1'>
        <span class='ocr_glyph' id='choice_1_2_1' title='x_confs 0'> </span></span>
       <span class='ocrx_cinfo' id='lstm_choices_1_2_2'>
        <span class='ocr_glyph' id='choice_1_2_2' title='x_confs 50'>m</span>
        <span class='ocr_glyph' id='choice_1_2_3' title='x_confs 40'>n</span></span>
      </span>
     </span>
     <span class='ocr_header' id='line_1_2' title="bbox 0 9 9 18">
      <span class='ocrx_word' id='word_1_3' title='bbox 0 0 4 9; x_wconf 50'>
       &lt;s&gt; @@
       <span class='ocr_symbol' id='symbol_1_3_1'>
        <span class='ocrx_cinfo' id='timestep1_3_1'>
         <span class='ocrx_cinfo' id='choice_1_3_1' title='x_confs 70'>z</span>
        </span></span>
      </span>
     </span>
  </div>
 </body>
</html>
"""
# The schema of ALTO 4.4: Variant and GC, VC between 0 and 1; no confidence of an
# ALTERNATIVE.
ALTO = """<?xml version="1.0" encoding="UTF-8"?>
<alto xmlns="http://www.loc.gov/standards/alto/ns-v4#"><Layout><Page ID="P1">
<PrintSpace><TextBlock ID="B1"><TextLine ID="L1">
 <String ID="S1" CONTENT="Stras" WC="0.5">
  <Glyph ID="G1" CONTENT="S" GC="1"/>
  <Glyph ID="G2" CONTENT="tra" GC="0.8"><Variant CONTENT="trä" VC="0.2"/></Glyph>
  <Glyph ID="G3" CONTENT="s" GC="96.0"/>
 </String><SP/>
 <String CONTENT="alt"><ALTERNATIVE PURPOSE="spelling">elt</ALTERNATIVE></String>
 <HYP CONTENT="-"/>
</TextLine><TextLine><String CONTENT="eins" WC="0.5"/><String CONTENT="zwei" WC="0.5"/>
</TextLine></TextBlock></PrintSpace></Page></Layout></alto>
"""
# The schema of PAGE 2019-07-15: the lowest index is the main text.
PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<pc:PcGts xmlns:pc="http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15">
<pc:Page imageFilename="a.png"><pc:TextRegion id="r1"><pc:Coords points="0,0"/>
<pc:TextLine id="l1"><pc:Coords points="0,0"/>
 <pc:Word id="w1"><pc:Glyph id="g1">
   <pc:TextEquiv index="1" conf="0.7"><pc:Unicode>u</pc:Unicode></pc:TextEquiv>
   <pc:TextEquiv index="2" conf="0.3"><pc:Unicode>n</pc:Unicode></pc:TextEquiv>
  </pc:Glyph><pc:Glyph id="g2">
   <pc:TextEquiv><pc:Unicode>p</pc:Unicode></pc:TextEquiv></pc:Glyph>
  <pc:TextEquiv conf="0.6"><pc:Unicode>np</pc:Unicode></pc:TextEquiv></pc:Word>
 <pc:Word id="w2">
  <pc:TextEquiv index="1" conf="0.4"><pc:Unicode>hi11</pc:Unicode></pc:TextEquiv>
  <pc:TextEquiv index="0" conf="0.2"><pc:Unicode>hill</pc:Unicode></pc:TextEquiv>
 </pc:Word>
 <pc:TextEquiv conf="0.5"><pc:Unicode>np hill</pc:Unicode></pc:TextEquiv>
</pc:TextLine>
<pc:TextLine id="l2">
 <pc:TextEquiv index="0"><pc:PlainText>x</pc:PlainText><pc:Unicode>das Haus</pc:Unicode>
 </pc:TextEquiv>
 <pc:TextEquiv index="1" conf="0.5"><pc:Unicode>das Hans</pc:Unicode></pc:TextEquiv>
 <pc:TextEquiv index="2" conf="0.25"><pc:Unicode>das Haus</pc:Unicode></pc:TextEquiv>
</pc:TextLine><pc:TextLine id="l3"><pc:Coords points="0,0"/></pc:TextLine>
</pc:TextRegion></pc:Page></pc:PcGts>
"""
FORMS = {"hocr": HOCR, "alto": ALTO, "page": PAGE}


def read(path: Path, **options: object) -> list[NbestList]:
    return list(formats.iterate([path], options=ReadOptions(**options)))


def scored(nbest: NbestList) -> dict[str, object]:
    return {
        one.text: pytest.approx(math.exp(one.scores["s2s"])) for one in nbest.hypotheses
    }


def page(folder: Path, text: str, name: str = "p.xml") -> list[NbestList]:
    (folder / name).write_text(text, encoding="utf-8")
    return read(folder / name)


def test_hocr(tmp_path: Path) -> None:
    """The chosen text is first, with the best score of its word."""
    first, second = page(tmp_path, HOCR, "a.hocr")
    assert (first.id, second.id) == ("line_1_1", "line_1_2")
    assert first.hypotheses[0].text == "cat n o"
    assert scored(first) == {
        "cat n o": 0.75 * LEAST * 0.5,
        "cat m": 0.75 * LEAST * 0.5,
        "cat n": 0.75 * LEAST * 0.4,
        "eat n o": 0.25 * LEAST * 0.5,
        "eat m": 0.25 * LEAST * 0.5,
        "eat n": 0.25 * LEAST * 0.4,
    }
    # no mark of a toolkit, and no step in time
    assert scored(second) == {"<s> @@": 0.5}


def test_hocr_with_alternatives_as_the_standard_has_them(tmp_path: Path) -> None:
    word = (
        '<span class="ocrx_word">(<span class="alternatives">'
        '<ins class="alt">hello</ins> <del class="alt">hallo</del></span>)</span>'
    )
    text = f'<div class="ocr_page"><span class="ocr_line">{word} {word}</span></div>'
    (line,) = page(tmp_path, text, "a.html")
    assert line.id == "line-1"
    assert scored(line) == {
        "(hello) (hello)": 1,
        "(hallo) (hello)": 0.5,
        "(hello) (hallo)": 0.5,
        "(hallo) (hallo)": 0.25,
    }


def test_alto(tmp_path: Path) -> None:
    first, second = page(tmp_path, ALTO)
    assert (first.id, second.id) == ("L1", "line-2")
    assert first.hypotheses[0].text == "Stras alt-"
    assert scored(first) == {
        "Stras alt-": 0.8 * 0.96,
        "Sträs alt-": 0.2 * 0.96,
        "Stras elt-": 0.8 * 0.96 / 2,
        "Sträs elt-": 0.2 * 0.96 / 2,
    }
    assert scored(second) == {"eins zwei": 0.25}


def test_page(tmp_path: Path) -> None:
    first, second, third = page(tmp_path, PAGE)
    assert [first.id, second.id, third.id] == ["l1", "l2", "l3"]
    assert first.hypotheses[0].text == "np hill"
    assert scored(first) == {
        "np hill": 0.7 * 0.4,  # as chosen, the best of their words
        "up hill": 0.7 * 0.4,
        "np hi11": 0.7 * 0.4,
        "up hi11": 0.7 * 0.4,
    }
    assert second.references == ("das Haus",) and not first.references
    assert scored(second) == {"das Hans": 0.5, "das Haus": 0.25}
    assert scored(third) == {"": 1}


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_detected(name: str, tmp_path: Path) -> None:
    path = tmp_path / "page.xml.gz"
    path.write_bytes(gzip.compress(FORMS[name].replace("\n", "\r\n").encode()))
    assert sniff(Source(path)) == sniff(Source(tmp_path)) == name
    assert [len(one.hypotheses) for one in read(path)] == [
        len(one.hypotheses) for one in page(tmp_path, FORMS[name], "q")
    ]


@pytest.mark.parametrize("name", FORMS)
def test_lists_are_no_longer_than_asked(name: str, tmp_path: Path) -> None:
    longer, shorter = page(tmp_path, FORMS[name]), read(tmp_path / "p.xml", size=2)
    for few, many in zip(shorter, longer, strict=True):
        assert [one.text for one in few.hypotheses] == [
            one.text for one in many.hypotheses[:2]
        ]


def test_the_file_names_lines_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    for name in ("a", "b"):
        (tmp_path / "pages" / f"{name}.hocr").write_text(HOCR)
    names = [f"{name}-line_1_{number}" for name in "ab" for number in (1, 2)]
    assert [one.id for one in read(tmp_path / "pages")] == names
    files = sorted((tmp_path / "pages").iterdir())
    assert [one.id for one in formats.read(files)] == names


@pytest.mark.parametrize("reference", ["text", "page"])
def test_lines_are_measured(reference: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(ALTO)
    corrected = ""
    for name, text in (("L1", "Sträs alt-"), ("line-2", "eins zwei")):
        equivalent = f"<TextEquiv><Unicode>{text}</Unicode></TextEquiv>"
        corrected += f'<TextLine id="{name}">{equivalent}</TextLine>'
    (tmp_path / "page").write_text(f"<PcGts>{corrected}</PcGts>", encoding="utf-8")
    (tmp_path / "text").write_text("L1 Sträs alt-\nline-2 eins zwei\n", "utf-8")
    done = rescore("eval", "p.xml", "--ref", reference, "--metric", "cer")
    assert done.returncode == 0
    assert done.stdout.split("\n")[1].split()[3:5] == ["0.00", "1"]  # oracle, sub
    done = rescore("convert", "p.xml", "--ref", reference, "-o", "l.jsonl")
    lists = formats.read([tmp_path / "l.jsonl"])
    path = tmp_path / reference
    assert lists == formats.read([tmp_path / "p.xml"], references=path)


ENTITIES = """<?xml version="1.0"?>
<!DOCTYPE alto [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<alto><TextLine ID="l"><String CONTENT="&b;"/></TextLine></alto>
"""
FETCHED = ENTITIES.replace('a "aaaaaaaaaa"', 'a SYSTEM "file:///etc/hostname"')
NESTED = "<alto><TextLine>" + "<String>" * 200_000
DAMAGED = {
    "a bomb of entities": (ENTITIES, "line 2: the DOCTYPE declares entities"),
    "a file to fetch": (FETCHED, "line 2: the DOCTYPE declares entities"),
    "truncated": (ALTO[: ALTO.index("</TextBlock>")], "no well-formed XML"),
    "another element ends": (ALTO.replace("</String>", "</S>"), "mismatched tag"),
    "deep": (NESTED, "more than 100 elements are nested"),
    "a confidence": (ALTO.replace("0.2", "x"), "confidence is 'x', not a number"),
    "not a number": (ALTO.replace("0.2", "nan"), "score s2s is nan"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_pages(name: str, rescore: Run, tmp_path: Path) -> None:
    text, message = DAMAGED[name]
    (tmp_path / "p.xml").write_text(text)
    assert_one_line_error(rescore("convert", "p.xml"), message)


def test_a_dtd_elsewhere_is_not_read(tmp_path: Path) -> None:
    """Its entities are those of HTML; others cannot be known."""
    dtd = '<!DOCTYPE html SYSTEM "file:///no/such/file">'
    word = "<span class='ocrx_word'>a&eacute;&unknown;b</span>"
    text = f"{dtd}<div class='ocr_page'><span class='ocr_line'>{word}</span></div>"
    (line,) = page(tmp_path, text, "p.html")
    assert line.hypotheses[0].text == "a\u00e9\ufffdb"


def test_a_page_is_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(ALTO.replace("</TextBlock>", "<broken>"))
    lists = formats.iterate([tmp_path / "p.xml"])
    assert next(lists).id == "L1"
    with pytest.raises(UserError, match="no well-formed XML"):
        list(lists)


def test_a_long_line_takes_no_time(tmp_path: Path) -> None:
    """Two letters at each of 400 places make 2 ** 400 texts."""
    glyph = '<Glyph CONTENT="a" GC="0.6"><Variant CONTENT="b" VC="0.4"/></Glyph>'
    words = f'<String CONTENT="aaaa">{glyph * 4}</String>' * 100
    began = time.process_time()
    (line,) = page(tmp_path, f"<alto><TextLine>{words}</TextLine></alto>")
    assert len(line.hypotheses) == 100
    assert time.process_time() - began < 5


def every(slots: Iterable[dict[str, float]]) -> dict[str, float]:
    texts = {"": 0.0}
    for slot in slots:
        longer: dict[str, float] = {}
        for text, score in texts.items():
            for end, more in slot.items():
                whole = text + end
                longer[whole] = max(score + more, longer.get(whole, -math.inf))
        texts = longer
    return texts


def test_the_best_texts_are_those_of_all() -> None:
    slots = [{"a": -1.0, "b": -2.0}, {" ": 0.0}, {"c": -0.5}, {"": -4.0, "d": -0.25}]
    known = every(slots)
    best = best_texts(slots, 3)
    assert dict(best) == {text: known[text] for text, _ in best}
    assert [score for _, score in best] == sorted(known.values(), reverse=True)[:3]
    assert best_texts([], 5) == [("", 0.0)]
