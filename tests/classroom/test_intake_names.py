"""Who is who: rosters, lists of names, and names written in several ways."""

import pytest

from grader.classroom.intake_names import Person, contested, read_names, read_roster, safe_id, tidy, who_is_who
from grader.classroom.intake_notebook import IntakeError


def test_rosters_in_several_forms(tmp_path):
    path = tmp_path / "roster"
    for text in (
        "ana\nben\n",
        "student,email\nana,a@x\nben,b@x\n",
        "\ufeffid\r\nana\r\n\r\nben\r\nana\r\n",
        "Student ID;Name\nana;A\nben;B\n",
    ):
        path.write_text(text, encoding="utf-8")
        assert read_roster(path) == ["ana", "ben"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("id,name\n1,Ana\n2,Bob\n", ["Ana", "Bob"]),
        ("no,Student\n1,Ana\n", ["Ana"]),
        ("no, Full_Name \n1,Ana\n", ["Ana"]),
        ("email;Full name\na@x;Ana\n", ["Ana"]),
        ("id,email\n1,a@x\n2,b@x\n", ["1", "2"]),
        ("student,student_id\nAna,1\n", ["Ana"]),
        ("name,given name\nLee, Ana\n", ["Lee"]),
        ('"Lee, Ana"\n"Lee, Bob"\n', ["Lee, Ana", "Lee, Bob"]),
        ("ana, a@x\nben, b@x\n", ["ana", "ben"]),
        ('Dwayne "Rock" Johnson\n"Mad ""Max"""\n', ['Dwayne "Rock" Johnson', 'Mad "Max"']),
        ("A\u2028na\r\nB\u0085ob\nC\x0by\n", ["A\u2028na", "B\u0085ob", "C\x0by"]),
        ("ana,1\nana,1\nana, 1,\n", ["ana"]),
    ],
)
def test_every_line_of_a_roster_is_a_name(tmp_path, text, expected):
    path = tmp_path / "roster.csv"
    path.write_bytes(text.encode())
    assert read_roster(path) == expected


@pytest.mark.parametrize(
    "text, words",
    [
        ('"Mad Max\nAna\nBob\nCy\n', "line 1 of the roster .*: a quote at the beginning of a field needs another"),
        ('Ana\n"Mad" Max\n', "line 2 of the roster .*: a quote at the beginning"),
        ("Lee,Ana\nKim,Bo\nLee,Bob\n", "lines 1 and 3 of the roster .* differ and both name 'Lee': .* needs quotes"),
        ("student,email\nAna,a@x\nAna,b@x\n", "lines 2 and 3 of the roster .* a name of their own each"),
        ("Lee, Ana\nKim, Bob\n", 'line 1 of the roster .* write "Lee, Ana" with its quotes'),
        ("Ana\nBob\rCy\n", "line 2 of the roster"),
        ("Ana\n" + "x" * 5_000_000 + "\n", "line 2 of the roster .*field larger than"),
        ("id,name\n1,Ana\n2\n", "line 3 of the roster .* names nobody in its column 2"),
    ],
)
def test_a_roster_whose_names_would_be_lost_is_refused(tmp_path, text, words):
    path = tmp_path / "roster.csv"
    path.write_bytes(text.encode())
    with pytest.raises(IntakeError, match=words):
        read_roster(path)


@pytest.mark.parametrize("content", [b"", b"student\n", b"\xff\xfe\x00bad"])
def test_a_roster_without_names_is_refused(tmp_path, content):
    path = tmp_path / "roster"
    path.write_bytes(content)
    with pytest.raises(IntakeError, match="roster"):
        read_roster(path)


def test_a_missing_roster_is_refused(tmp_path):
    with pytest.raises(IntakeError, match="cannot be read"):
        read_roster(tmp_path / "nowhere.csv")


def test_lists_of_names(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("LMS name,roster\n12345,ana\nLee Ben,ben\n")
    assert read_names(path) == {"12345": "ana", "Lee Ben": "ben"}


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "is empty"),
        ("ana\n", "says nothing of 'ana'"),
        ("1,ana\n1,ben\n", "both 'ana' and 'ben'"),
        ('1,ana\n2,"ben\n3,cy\n', "line 2 of the list of names .*: a quote at the beginning"),
        ("1,ana\n2," + "x" * 5_000_000, "line 2 of the list of names .*field larger than"),
        ("Lee, Ana,Ana Lee\n", "line 1 of the list of names .* more than two columns; .* needs quotes"),
        (",ana\n", "line 1 .* says nothing of 'ana'"),
    ],
)
def test_lists_of_names_that_say_nothing_are_refused(tmp_path, text, words):
    path = tmp_path / "names.csv"
    path.write_text(text)
    with pytest.raises(IntakeError, match=words):
        read_names(path)


ROSTER = ["Ana Lee", "Ben Öz", "Juan de la Cruz", "ana", "Kim, Cleo"]


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("Ana Lee", "Ana Lee"),
        ("LEE  ANA", "Ana Lee"),
        ("leeana", "Ana Lee"),
        ("ozben", "Ben Öz"),
        ("delacruzjuan", "Juan de la Cruz"),
        ("cruzjuandela", "Juan de la Cruz"),
        ("Cleo Kim", "Kim, Cleo"),
        ("ana", "ana"),
        ("Anal Ee", "Ana Lee"),  # the price of names without spaces
        ("Somebody Else", "Somebody Else"),
    ],
)
def test_a_name_in_another_form_is_the_same_name(theirs, ours):
    person = Person(theirs)
    assert who_is_who([person], ROSTER, {}) == {person: (ours, "")}


def test_what_is_said_comes_before_what_is_guessed():
    people = [Person("Ana Lee", "7"), Person("leeana", "8"), Person("Ana Lee", "9")]
    called = who_is_who(people, ROSTER, {"8": "Ben Öz", "ANA LEE": "ana", "Ana Lee (9)": "Ana Lee"})
    assert [called[person][0] for person in people] == ["ana", "Ben Öz", "Ana Lee"], "as the report writes namesakes"


def test_two_accounts_of_one_person_may_be_said_to_be_one():
    people = [Person("x", "1"), Person("y", "2")]
    assert list(who_is_who(people, ["Ana Lee"], {"1": "Ana Lee", "2": "Ana Lee"}).values()) == [("Ana Lee", "")] * 2


def test_an_exact_name_is_not_disturbed_by_a_similar_one():
    exact, similar = Person("ana"), Person("ANA")
    called = who_is_who([exact, similar], ["ana"], {})
    assert called[exact] == ("ana", "") and called[similar][0] == "ANA" and "who is who" in called[similar][1]


def test_two_similar_names_of_one_place_are_two_people_of_two_places_one():
    one, two = Person("LeeAna", "1"), Person("leeana", "2")
    assert [name for name, _ in who_is_who([one, two], ["Ana Lee"], {}).values()] == ["LeeAna (1)", "leeana (2)"]
    one, two = Person("LeeAna", "1", "a"), Person("leeana", "2", "b")
    assert [name for name, _ in who_is_who([one, two], ["Ana Lee"], {}).values()] == ["Ana Lee"] * 2


def test_names_alike_on_the_roster_are_not_guessed():
    person = Person("renee")
    assert who_is_who([person], ["Renée", "Rénee"], {})[person] == ("renee", "")


def test_names_that_several_people_of_one_place_would_have():
    people = [Person("Ana Lee", str(n), place) for n, place in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b"))]
    used = {f"Ana Lee ({n})" for n in range(1, 6)}
    assert contested(people, [], {}) == contested(people, ["Ana Lee"], {}) == {"Ana Lee": (3, used)}
    assert contested(people[:1], ["Ana Lee"], {}) == contested(people[1:3], ["Ana Lee"], {}) == {}
    assert contested(people[:2], ["Ana Lee"], {"1": "Ana"}) == {}
    near = [Person("LEE ANA"), Person("ana lee")]
    assert contested(near, ["Ana Lee"], {}) == {"Ana Lee": (2, {"LEE ANA", "ana lee"})}


def test_a_name_is_one_however_it_is_written():
    assert tidy(" Zoe\u0308 ") == "Zo\xeb" and tidy(" \n") == "(no name)"


def test_an_id_is_its_own_id_and_stands_for_its_student():
    theirs, person = safe_id("Ana Lee"), Person(safe_id("Ana Lee"))
    assert safe_id(theirs) == theirs and who_is_who([person], ROSTER, {}) == {person: ("Ana Lee", "")}
    both = [Person("Ana Lee"), person]
    assert [name for name, _ in who_is_who(both, ROSTER, {}).values()] == ["Ana Lee", theirs]
    assert who_is_who([person], [*ROSTER, theirs], {}) == {person: (theirs, "")}


def test_names_become_safe_and_stay_distinct():
    ids = [safe_id(name) for name in ("a b", "a_b", "a*b", "änne", "[x]", "-x", "..", "x" * 200, "")]
    assert len(set(ids)) == 9 and ids[1] == "a_b" and ids[3] == "änne"
    assert not any(set(i) & set(" *?[]{}/\\") or i[0] in ".-" or len(i) > 100 for i in ids)
    assert len(safe_id("\U00010330" * 80).encode()) <= 255, "letters of four bytes"
    assert safe_id("x" * 80) == "x" * 80


@pytest.mark.parametrize(
    "text, names",
    [
        ("Last Name,First Name\nAdams,Zed\n", ["Zed Adams"]),
        ("Vorname;Nachname;Nr\nZed;Zimmer;3\nAna;Lee;4\n", ["Zed Zimmer", "Ana Lee"]),
        ("id,first name,name,last name\n1,Zed,Zed A.,Adams\n", ["Zed A."]),
    ],
)
def test_a_roster_with_names_in_two_columns_is_read(tmp_path, text, names):
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    assert read_roster(path) == names


def test_a_roster_with_half_of_a_name_is_refused(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text("id,Surname\n1,Adams\n", encoding="utf-8")
    with pytest.raises(IntakeError, match="has a column 'Surname' and none for the rest of the name"):
        read_roster(path)


@pytest.mark.parametrize(
    "theirs, ours", [("Carla Mueller", "Müller, Carla"), ("Müller, Carla", "Mueller, Carla"), ("oezben", "Ben Öz")]
)
def test_umlauts_may_be_written_with_an_e(theirs, ours):
    person = Person(theirs)
    assert who_is_who([person], [ours, "Carla Muller-Lee"], {}) == {person: (ours, "")}


def test_who_is_written_with_an_e_is_found_before_who_may_be():
    people = [Person("mueller"), Person("muller"), Person("Mueller, X")]
    assert [name for name, _ in who_is_who(people, ["Müller", "Mueller", "X Müller"], {}).values()] == [
        "Mueller", "Müller", "X Müller",
    ]  # fmt: skip


def test_what_a_list_of_names_says_is_taken_for_the_name_on_the_roster():
    people = [Person("x", "1"), Person("y", "2"), Person("z", "3")]
    said = {"1": "Lee, Ana", "2": "Nobody Here", "3": "ben"}
    called = who_is_who(people, ["Ana Lee", "Ben", "ben"], said)
    assert [name for name, _ in called.values()] == ["Ana Lee", "Nobody Here", "ben"]


def test_rows_of_a_gradebook_that_are_nobody_s_are_no_students(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text('Student,ID\n"    Points Possible",\n"Lee, Ana",1\n"Student, Test",2\n')
    assert read_roster(path) == ["Lee, Ana"]
    path.write_text("E-Mail\nana@example.org\n")
    assert read_roster(path) == ["ana@example.org"]


def test_two_people_of_one_name_in_a_roster_of_several_columns_are_not_taken_for_one(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text("First name,Last name,ID\nAna,Lee,1\nAna,Lee,2\n")
    with pytest.raises(IntakeError, match=r"lines 2 and 3 of the roster .* differ and both name 'Ana Lee'"):
        read_roster(path)
    path.write_text("First name,Last name,ID\nAna,Lee,1\nAna,Lee,1\n")
    assert read_roster(path) == ["Ana Lee"]
