"""Doctor: checks of an installation. Each is a pure function of parts of one snapshot.

`snapshot` has the parts, `findings` what a check reports, the modules `*_checks` the checks, and `check_list` puts them
in order and runs them.
"""
