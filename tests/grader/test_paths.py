"""Chapters are called by their names or by how these begin."""

import pytest

from grader.paths import chapter_called, chapters


def test_a_chapter_is_found_by_its_number():
    assert chapter_called("2") == chapter_called("02")
    assert [chapter_called(name[:2]) for name in chapters()] == chapters() == [chapter_called(n) for n in chapters()]


@pytest.mark.parametrize(
    "text, says", [("0", "no chapter is called '00'"), ("99", "no chapter is called '99'"), ("", "no chapter")]
)
def test_what_is_no_chapter_is_said_with_those_there_are(text, says):
    with pytest.raises(ValueError, match=f"{says}.*{chapters()[0]}"):
        chapter_called(text)
