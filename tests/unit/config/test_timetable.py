from __future__ import annotations

from config.celery import app
from config.timetable import TIMETABLE


def test_every_job_of_the_timetable_exists_and_every_job_has_its_time() -> None:
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == set(TIMETABLE)
