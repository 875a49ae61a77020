"""The console in a real browser, over a real API server with the ledger at work."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.console import eyes
from tests.console.browser import Browser, Served, serving
from tests.console.conftest import PICTURES
from tests.console.site import Site, change, report
from tests.kit.servers import ApiServer

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def console(site: Site, kubeconfig: Path) -> Iterator[Served]:
    with serving(kubeconfig) as served:
        yield served


@pytest.fixture(scope="module")
def page(console: Served, browser: Browser) -> Browser:
    browser.size(1400, 1800)
    browser.open(console.link)
    browser.shows("Map: ")
    return browser


def test_the_page_shows_the_host(page: Browser, site: Site) -> None:
    page.shows("Map: 48 nvidia.com/gpu on 6 nodes")
    text = page.text()
    for words in (
        "rack-1",
        "rack-2",
        "NVLink domain nvl-2",
        "cohort " + site.cohort,
        site.borrower,
        site.lender,
        "CohortExhausted",
    ):
        assert words in text, words
    page.picture(PICTURES / "light.png")


def test_the_file_shows_the_same_alone(page: Browser, site: Site, kubeconfig: Path, tmp_path: Path) -> None:
    path = tmp_path / "gpus.html"
    command = [sys.executable, "-m", "workstation.cli.main", "--kubeconfig", str(kubeconfig), "top", "--html", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r".*gpus\.html: 3 tenants, 6 nodes, \d+ KiB\n", done.stdout)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["gpus.html"]
    here = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.open(path.as_uri())
    try:
        page.shows("Map: 48 nvidia.com/gpu on 6 nodes")
        assert "<script>document.title='broken'</script>" in page.text()
        assert page.run("return document.title") == "Bulkhead"
        assert page.complaints() == []
        refused = page.driver.execute_async_script(
            "const done = arguments[0]; fetch('http://127.0.0.1:1').then(() => done('sent'), (error) => done(String(error)))"
        )
        assert refused != "sent"
        assert any("Content Security Policy" in line for line in page.complaints()), "the policy refuses, not the network"
    finally:
        page.driver.close()
        page.driver.switch_to.window(here)
    assert [address for address in page.asked() if address.startswith("file:")] == [path.as_uri()]


def test_a_path_that_cannot_be_written_is_named(site: Site, kubeconfig: Path, tmp_path: Path) -> None:
    where = str(tmp_path / "none" / "gpus.html")
    command = [sys.executable, "-m", "workstation.cli.main", "--kubeconfig", str(kubeconfig), "top", "--html", where]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"cannot write {where}: No such file" in done.stderr


def test_a_change_of_the_host_is_seen_without_a_reload(page: Browser, site: Site, server: ApiServer) -> None:
    async def cordon(client: Client, *, on: bool) -> None:
        await client.patch(kinds.NODES, site.nodes[5], {"spec": {"unschedulable": on}})

    page.run("window.kept = 1")
    change(server, lambda client: cordon(client, on=True))
    page.shows("Cordoned")
    change(server, lambda client: cordon(client, on=False))
    page.hides("Cordoned")
    assert page.run("return window.kept") == 1


def test_a_tenant_that_breaks_comes_first(page: Browser, site: Site, server: ApiServer) -> None:
    async def break_it(client: Client, reason: str) -> None:
        generation = (await client.get(kinds.TENANTS, site.borrower))["metadata"]["generation"]
        await report(client, site.borrower, generation, reason, "the volume of <b>its</b> plane is empty")

    change(server, lambda client: break_it(client, "DataLost"))
    page.shows("DataLost")
    assert "the volume of <b>its</b> plane is empty" in page.text()
    first = page.run("return document.querySelector('#tenants tbody tr').innerText")
    assert site.borrower in str(first)
    change(server, lambda client: break_it(client, "Ready"))
    page.hides("DataLost")


def test_a_tenant_has_a_page_with_its_parts_certificates_snapshots_and_usage(page: Browser, site: Site) -> None:
    page.run("document.querySelector(arguments[0]).click()", f"[data-key='tenant {site.borrower}']")
    page.shows("Parts of its plane")
    page.shows("most in a day: 36.0 h")
    text = page.text()
    for words in (
        "plane-0",
        "SlowDisk",
        "an <i>event</i> of the plane",
        "CN=apiserver-of-the-plane",
        "pki-apiserver/tls.crt",
        "in 23 hours",
    ):
        assert words in text, words
    assert f"nightly-{site.borrower}" in text
    assert "PRIVATE KEY" not in str(page.run("return document.documentElement.outerHTML"))
    page.size(1400, 2600)
    page.picture(PICTURES / "tenant.png")


def test_a_slider_says_which_tenant_would_lose_what(page: Browser, site: Site) -> None:
    slider = "document.querySelector('input[type=range]')"
    page.run(f"{slider}.value = 8; {slider}.dispatchEvent(new Event('change'))")
    page.shows("would lose devices")
    lost = str(page.run("return document.querySelector('.outcome').innerText"))
    assert f"would lose devices: {site.borrower} 8" in lost
    assert "8 nvidia.com/gpu" in lost, "the pod is named with its devices, why, and by when it is gone"
    assert "OverQuota" in lost
    page.picture(PICTURES / "try.png")
    assert page.run(f"return {slider}.value") == "8"
    page.run(f"{slider}.focus()")
    page.press("ArrowRight")
    page.until(lambda: page.run(f"return {slider}.value") == "9", "the slider to follow a key")
    page.shows("would lose devices")
    assert page.run(f"return document.activeElement === {slider}"), "the next key moves it on"
    assert seen_by_all(page) == []
    page.size(1400, 1800)
    page.run("location.hash = ''")
    page.shows("Map: 48 nvidia.com/gpu")


def seen_by_all(page: Browser) -> list[str]:
    """What is wrong with the page for some readers, in light and dark, at a desk and on a phone."""
    wrong = [*eyes.wordless(page)]
    for size in ((1400, 1800), (390, 2400)):
        page.size(*size)
        for dark in (False, True):
            page.dark(on=dark)
            wrong += [f"{size[0]} px, dark {dark}: {line}" for line in (*eyes.faint(page), *eyes.cut(page))]
    wrong += eyes.small(page)
    page.dark(on=False)
    page.size(1400, 1800)
    return wrong


def test_the_live_page_is_for_every_reader(page: Browser) -> None:
    assert seen_by_all(page) == []


def test_usage_over_time_of_all_tenants_opens_on_request(page: Browser) -> None:
    page.run("document.querySelector(\"[data-key='fold usage']\").click()")
    page.shows("most in a day: 36.0 h")
    page.run("document.querySelector(\"[data-key='fold usage']\").click()")
    page.hides("most in a day")


def test_hostile_names_are_text(page: Browser, site: Site) -> None:
    text = page.text()
    assert "<script>document.title='broken'</script>" in text
    assert "</script><!--" in text
    assert "x" * 200 in str(page.run("return document.body.textContent"))
    assert "\u202e" not in str(page.run("return document.body.textContent")), "text that turns the direction around"
    assert "U+202E" in text
    assert "U+3164" in text, "a letter that shows nothing"
    assert page.run("return document.title") == "Bulkhead"
    assert page.run("return document.querySelectorAll('img, iframe, object, embed, form').length") == 0
    overflow = page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow == 0


def test_it_fits_a_phone_and_a_dark_room(page: Browser) -> None:
    page.dark(on=True)
    try:
        page.picture(PICTURES / "dark.png")
        assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    finally:
        page.dark(on=False)
    page.size(390, 2400)
    try:
        page.picture(PICTURES / "phone.png")
        overflow = page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow == 0
    finally:
        page.size(1400, 1800)


def test_it_works_by_keyboard_and_keeps_the_focus(page: Browser, site: Site, server: ApiServer) -> None:
    rack = "document.querySelector('button.rack')"
    before = page.run(f"return {rack}.getAttribute('aria-expanded')")
    page.run(f"{rack}.focus()")
    page.press("Enter")
    page.until(lambda: page.run(f"return {rack}.getAttribute('aria-expanded')") != before, "the rack to change")
    assert page.run("return document.activeElement.className") == "rack"
    page.press("Enter")
    page.until(lambda: page.run(f"return {rack}.getAttribute('aria-expanded')") == before, "the rack to change back")

    async def cordon(client: Client, *, on: bool) -> None:
        await client.patch(kinds.NODES, site.nodes[5], {"spec": {"unschedulable": on}})

    # The page is drawn again below the user's hands.
    change(server, lambda client: cordon(client, on=True))
    page.shows("Cordoned")
    assert page.run("return document.activeElement.className") == "rack"
    change(server, lambda client: cordon(client, on=False))
    page.hides("Cordoned")
    # A tenant's link in the queue is not its first one in the page.
    page.run("[...document.querySelectorAll(\"#queue [data-key^='tenant ']\")].at(-1).focus()")
    change(server, lambda client: cordon(client, on=True))
    page.shows("Cordoned")
    assert page.run("return document.activeElement.closest('section').id") == "queue"
    change(server, lambda client: cordon(client, on=False))
    page.hides("Cordoned")
    nameless = page.run(
        "return [...document.querySelectorAll('button, a, input, select, [role=img]')]"
        ".filter((item) => !(item.textContent.trim() || item.getAttribute('aria-label') || item.labels?.length)).length"
    )
    assert nameless == 0


def test_no_colour_is_the_only_sign(page: Browser) -> None:
    marks: Any = page.run(
        "return [...document.querySelectorAll('#map .cell:not(.free)')].map((cell) => [cell.className, cell.textContent])"
    )
    letters = {tuple(name.split()[1:3]): text for name, text in marks}
    assert len(letters) == len(set(letters.values())) == 2
    assert all(text.strip() for text in letters.values())


def test_the_browser_asked_for_nothing_elsewhere_and_complained_about_nothing(page: Browser, console: Served) -> None:
    asked = page.asked()
    assert any(address.endswith("/events") for address in asked)
    # The browser's own pages are not ours.
    ours = [address for address in asked if not address.startswith(("chrome://", "chrome-untrusted://", "file://"))]
    assert [address for address in ours if not address.startswith((console.origin, "data:"))] == []
    assert page.complaints() == []


def test_the_link_works_once(page: Browser, console: Served) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])", console.link],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "403" in done.stderr


def test_a_page_of_another_origin_reads_nothing(page: Browser, console: Served, tmp_path: Path) -> None:
    here = page.driver.current_window_handle
    (tmp_path / "other.html").write_text("<title>other</title>")
    page.driver.switch_to.new_window("tab")
    try:
        page.open((tmp_path / "other.html").as_uri())
        read = page.driver.execute_async_script(
            "const [address, done] = arguments;"
            "fetch(address, {credentials: 'include'}).then((answer) => done('read ' + answer.status), () => done('refused'))",
            console.origin + "/api/nodes",
        )
        assert read == "refused"
        page.run(
            "const frame = document.createElement('iframe'); frame.src = arguments[0]; document.body.append(frame)",
            console.origin,
        )
        framed = page.driver.execute_async_script(
            "const done = arguments[0];"
            "setTimeout(() => { try { done(frames[0].document.body.innerText) } catch { done('closed') } }, 2000)"
        )
        assert framed == "closed"
    finally:
        page.driver.close()
        page.driver.switch_to.window(here)
        page.complaints()


def test_a_lost_cluster_is_named_and_comes_back(page: Browser, server: ApiServer) -> None:
    server.kill()
    page.shows("Connection to the cluster lost")
    assert "rack-1" in page.text()
    page.run("window.told = document.querySelector('[role=alert] .lost'); dispatchEvent(new HashChangeEvent('hashchange'))")
    assert page.run("return window.told !== null && document.querySelector('.lost') === window.told"), "told once, not again"
    page.picture(PICTURES / "lost.png")
    server.start_apiserver()
    server.wait()
    page.hides("Connection to the cluster lost", 120)
    assert "live" in str(page.run("return document.getElementById('state').textContent"))


def test_a_console_that_hangs_is_named_and_comes_back(page: Browser, console: Served) -> None:
    console.signal(signal.SIGSTOP)
    page.shows("The console does not answer")
    console.signal(signal.SIGCONT)
    page.hides("The console does not answer")


def test_ctrl_c_ends_it_with_pages_open(page: Browser, console: Served) -> None:
    code, out, err = console.end()
    assert (code, err) == (0, "")
    assert "console: ended" in out
    page.shows("The console does not answer")
