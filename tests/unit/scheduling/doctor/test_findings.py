"""Problems of each severity."""

from crawlfleet.scheduling.doctor.findings import FindingSeverity, FoundProblem, error, note, warning


def test_problems_have_the_severity_of_their_function() -> None:
    assert note("a", "b") == FoundProblem(FindingSeverity.NOTE, "a", "b")
    assert warning("a") == FoundProblem(FindingSeverity.WARNING, "a", "")
    assert error("a") == FoundProblem(FindingSeverity.ERROR, "a", "")
