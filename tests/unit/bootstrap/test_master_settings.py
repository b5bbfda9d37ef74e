"""The settings of a master as its parts take them."""

from pathlib import Path

from crawlfleet.bootstrap.master_settings import connection_limits, master_options, watched_folders
from crawlfleet.settings.master import MasterSettings


def test_the_address_for_nodes_is_only_the_one_that_was_set(tmp_path: Path) -> None:
    assert master_options(MasterSettings(data_dir=tmp_path, host="10.0.0.1")).address == ""
    settings = MasterSettings(data_dir=tmp_path, advertise_url="https://m1.example:8000/")
    assert master_options(settings).address == "https://m1.example:8000"


def test_the_disks_of_data_and_of_results_in_a_folder_are_watched(tmp_path: Path) -> None:
    assert watched_folders(MasterSettings(data_dir=tmp_path)) == {"data": tmp_path, "results": tmp_path / "results"}
    settings = MasterSettings(data_dir=tmp_path, results="s3://bucket/prefix")
    assert watched_folders(settings) == {"data": tmp_path}


def test_connections_are_limited_by_the_files_that_may_be_open(tmp_path: Path) -> None:
    settings = MasterSettings(data_dir=tmp_path)
    assert connection_limits(settings, 1_000_000).unidentified == settings.unidentified_connections
    assert connection_limits(settings, 1_000).unidentified < settings.unidentified_connections
