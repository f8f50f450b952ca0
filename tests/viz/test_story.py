"""The story of a run: one page that needs nothing else, and that tells what happened."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from support.box_table import BoxTable, TableMasks
from support.plain_system import plain_system

from cpor.decision import Remove
from cpor.errors import CporError
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder
from cpor.scene import BlockedBy
from cpor.sim.dataset.recognition import Verdict, judge
from cpor.viz.story import Story, story_of_run, story_page, write_story


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("story") / "run"
    table = BoxTable()
    assert retrieve(table, plain_system(TableMasks(table)), 1, record=RunFolder(path)).retrieved
    return path


def test_a_run_folder_becomes_a_page_with_a_picture_a_step(folder, tmp_path):
    write_story(story_of_run(folder), tmp_path / "story.html")
    page = Page((tmp_path / "story.html").read_text())
    assert page.tags.count("section") == 4  # three steps and the end
    assert page.tags.count("img") == 4
    assert "was retrieved" in page.text
    assert "1. Remove" in page.text and "3. Grasp" in page.text


def test_the_page_needs_no_other_host_and_no_script(folder):
    text = story_page(story_of_run(folder))
    page = Page(text)
    assert "script" not in page.tags and "link" not in page.tags
    assert page.links and all(link.startswith("data:image/webp;base64,") for link in page.links)
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text


def test_the_same_run_gives_the_same_page(folder):
    assert story_page(story_of_run(folder)) == story_page(story_of_run(folder))


def test_a_run_that_failed_says_so_first(tmp_path):
    table = BoxTable()
    record = RunFolder(tmp_path / "run")
    retrieve(table, plain_system(TableMasks(table)), 1, settings=LoopSettings(budget=1), record=record)
    text = Page(story_page(story_of_run(tmp_path / "run"))).text
    assert text.index("was not retrieved: the allowed number of actions is spent") < text.index("1. Remove")
    assert "was retrieved" not in text


def test_a_record_that_stops_in_the_middle_is_not_taken_for_a_success(folder):
    story = replace(story_of_run(folder), ended=None)
    text = Page(story_page(story)).text
    assert "not retrieved as far as the record goes" in text and "was retrieved" not in text


def test_what_the_truth_says_stands_apart(folder):
    verdicts = {0: Verdict(False), 1: Verdict(True, "the box still lies in its way")}
    text = Page(story_page(replace(story_of_run(folder), verdicts=verdicts))).text
    assert text.count("By the truth, which the robot does not see") == 2
    assert "wrong : the box still lies in its way" in text


def test_what_would_have_been_right_instead_of_asking_is_told(folder):
    text = Page(
        story_page(replace(story_of_run(folder), instead={0: "remove the box or remove the can"}))
    ).text
    told = "By the truth, which the robot does not see, it would have been right to remove the box or remove"
    assert text.count(told) == 1


def test_names_cannot_put_anything_into_the_page(folder):
    story = replace(story_of_run(folder), request='<script>alert(1)</script>"', facts={"<b>": "<i>"})
    page = Page(story_page(story))
    assert "script" not in page.tags and "b" not in page.tags
    assert "<script>alert(1)</script>" in page.text


def test_a_fact_stays_with_its_name_on_a_narrow_screen(folder):
    story = replace(story_of_run(folder), facts={"wrong removals": "0", "tier": "hard"}, request="the arch")
    page = story_page(story)
    assert "The arch is what was asked for." in Page(page).text
    assert "is what was asked for" not in story_page(story_of_run(folder))
    assert (
        "<dl><div><dt>wrong removals</dt><dd>0</dd></div><div><dt>tier</dt><dd>hard</dd></div></dl>" in page
    )


def test_those_who_want_no_motion_get_a_still(folder):
    story = replace(story_of_run(folder), animation=b"moving", still=b"still", speed=8.0)
    text = story_page(story)
    assert "The arm at work, 8 times as fast as it was." in text
    assert 'media="(prefers-reduced-motion: reduce)"' in text and "bW92aW5n" in text and "c3RpbGw=" in text


def test_a_run_that_saw_nothing_has_a_page_too():
    assert "not retrieved" in Page(story_page(Story("the mug", (), "empty"))).text


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(CporError, match="holds no run"):
        story_of_run(tmp_path)


def test_a_verdict_names_what_was_overlooked():
    names = {1: "the mug", 2: "the box", 3: "the can", 4: "the pen"}
    truth = {BlockedBy(1, 2), BlockedBy(2, 3), BlockedBy(2, 4)}
    assert judge(Remove(3), 1, truth, names.__getitem__) == Verdict(False)
    assert judge(Remove(2), 1, truth, names.__getitem__).because == "the can and the pen still lie in its way"
    assert judge(Remove(4), 3, truth, names.__getitem__).because == "it is not in the way of the can"


def test_stories_and_data_sets_are_read_without_mujoco():
    without = "import sys; sys.modules['mujoco'] = None; "
    code = without + "import cpor.viz.story, cpor.viz.live, cpor.sim.dataset.manifest"
    subprocess.run([sys.executable, "-c", code], check=True)
