"""A library of skills in a directory of the test's own."""

import pytest

from gloveport.model.skill import SkillGrant
from gloveport.skills.skill_files import make_files
from gloveport.skills.skill_library import make_library

CODE = "MONTH = 11  # parameter: which month\nMONTH * 2\n"


@pytest.fixture
def library(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return make_library(tmp_path / "skills", tmp_path / "records", workspace)


@pytest.fixture
def save(library):
    """Save a skill in Python."""

    def save_skill(name="sales-report", code=CODE, description="Sums up the sales of a month.", **rest):
        files = make_files(name, description, "python", code, grant=rest.pop("grant", SkillGrant()), **rest)
        return library.save(name, files, owner="stdio")

    return save_skill
