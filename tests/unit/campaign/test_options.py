"""What a campaign can be asked for."""

from __future__ import annotations

import pytest

from tests.proofs.campaign.__main__ import main


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--s3", "--versions", "3.1.3"], "tables on S3 need a 4.x metastore here"),
        (["--s3", "--hdfs"], "not allowed with"),
    ],
)
def test_invalid_combinations_of_options_are_refused_before_the_start(
    asked: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(asked)
    assert why in capsys.readouterr().err
