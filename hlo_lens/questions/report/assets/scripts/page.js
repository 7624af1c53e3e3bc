// The page: head, list of modules, views one below the other, the selected value at the bottom.

import { followKeys, makeCard } from "card";
import { append, button, commandLine, el, replace } from "dom";
import { findingsList } from "findings";
import { formatBytes } from "format";
import { sectionBlock } from "listing";
import { Selection } from "selection";

const MOST_LINKS = 12;
const WHERE = { "q.alive": "alive", picture: "alive", by: "alive", allocation: "alive", value: "alive",
  instruction: "program", "q.collectives": "collectives", "q.program": "program", "q.source": "source",
  "q.program-diff": "diff" }; // views of what an address without a view has
const VIEWS = new Map();

async function start() {
  const main = document.getElementById("page");
  append(main, [el("p", { class: "loading" }, "Reading the data of this page ...")]);
  const [report, made] = await Promise.all([readData("hlo-lens-data"), readData("hlo-lens-views")]);
  const drawn = made.modules.flatMap((one) => Object.entries(one.views)).filter(([, data]) => !data.facts);
  await Promise.all([...new Set(drawn.map(([name]) => name))].map(async (name) =>
    VIEWS.set(name, (await import(`views/${name}`)).view)));
  const page = { report, made, strings: made.strings, selection: new Selection(), formatBytes };
  window.hloLens = page;
  document.documentElement.dataset.kind = made.kind;
  addEventListener("beforeprint", () => document.body.classList.add("paper"));
  addEventListener("afterprint", () => document.body.classList.remove("paper"));
  for (const name of ["pointerdown", "keydown", "input"]) {
    addEventListener(name, ({ target }) => {
      const section = target instanceof Element && target.closest("section.view");
      if (section) page.selection.near = section.id.slice("view-".length);
    }, true);
  }
  followKeys(page);
  showModule(main, page);
}

// The JSON object of an element, which may be compressed.
async function readData(id) {
  const element = document.getElementById(id);
  if (element.dataset.encoding !== "gzip+base64") return JSON.parse(element.textContent);
  const packed = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function chosenModule(page) {
  const title = page.selection.get("module");
  const isListing = page.made.kind === "ls"; // which leads with its rows
  return page.made.modules.find((one) => one.title === title) || (isListing ? undefined : page.made.modules[0]);
}

function showModule(main, page) {
  const module = chosenModule(page);
  page.module = module;
  page.selection.listeners.clear();
  page.selection.subscribe(() => {
    if (chosenModule(page) === page.module) return true;
    scrollTo(0, 0);
    showModule(main, page);
    return false;
  });
  const object = module ? (page.report.modules || [])[module.number] : null;
  page.object = module ? module.objects.report || object : null;
  page.changes = module ? module.objects.diff || object : null;
  const general = page.made.sections.map((section, k) => [section.is_leading, viewSection({ name: `section${k}`,
    title: section.title, command: () => section.command, render: (body) => body.append(sectionOf(section, page)) }, page)]);
  const of = (isLeading) => general.filter(([one]) => one === isLeading).map(([, section]) => section);
  const views = module ? Object.entries(module.views).map(([name, data]) =>
    viewSection(VIEWS.get(name) || sectionView(name, data), page)) : [];
  const all = module && page.made.kind === "ls" ? views : [...of(true), ...views, ...of(false)];
  replace(main, head(page), navigation(page, all), el("div", { class: "views" }, all),
    el("footer", {}, `Made by hlo-lens ${page.made.tool_version}. This file loads nothing from the network; `
      + "it contains its data."), makeCard(page));
  followView(page);
  main.dataset.ready = "true";
}

// A view that is a section, as Python wrote it; findings are here where there is no picture of memory.
function sectionView(name, data) {
  return { name, title: data.title, command: () => data.command, render: (body, _data, page) => append(body,
    [name === "summary" && !page.module.views.memory ? findingsList(page) : null, sectionBlock(data, page)]) };
}

// A section on several modules: the first name of a row opens the module.
function sectionOf(section, page) {
  const open = (text, k) => (section.opens[k] ? el("a", { href: `#m=${encodeURIComponent(section.opens[k])}`,
    title: "show this module" }, text) : text);
  const first = section.opens ? section.tables[0] : null;
  return sectionBlock(section, page, first ? { [first.name]: { cells: { name: open } } } : {});
}

function head({ made, module, ...page }) {
  const verdict = module && module.verdict;
  return el("header", { class: "head" },
    el("div", { class: "line" }, el("h1", {}, module ? module.title : made.title),
      module ? el("span", { class: "role" }, [module.role, module.devices].filter(Boolean).join("; ")) : null,
      made.modules.length > 1 && module ? modulePicker({ made, module, ...page }) : null,
      made.kind === "ls" && module ? button("all modules", () => openModule(page, undefined)) : null,
      el("span", { class: "brand" }, `hlo-lens \u00b7 ${made.kind}`),
      el("details", { class: "how" }, el("summary", {}, "How to use this page"), made.how.page.map((text) => el("p", {}, text)))),
    verdict ? el("p", { class: `verdict${verdict.fits === false ? " bad" : ""}` }, verdict.text) : null);
}

function modulePicker(page) {
  const picker = el("select", { id: "module", onchange: () => {
    openModule(page, picker.value);
    document.getElementById("module").focus();
  } }, page.made.modules.map((one) => el("option", { value: one.title, selected: one === page.module },
    one.role ? `${one.title} (${one.role})` : one.title)));
  return el("span", {}, el("label", { for: "module" }, "module "), picker);
}

function openModule({ selection }, title) {
  selection.state = Object.create(null);
  selection.near = undefined;
  selection.set({ module: title });
  if (title === undefined) { selection.write(""); selection.tell(); }
}

function navigation(page, sections) {
  if (sections.length < 2 || sections.length > MOST_LINKS) return null;
  return el("nav", { "aria-label": "views" }, sections.map((section) => {
    const name = section.id.slice("view-".length);
    return el("a", {
      href: `#w=${name}`,
      onclick: (event) => {
        event.preventDefault();
        page.selection.near = name;
        page.selection.set({ view: name });
        goTo(section);
      },
    }, section.getAttribute("aria-label"));
  }));
}

// Go to the view in the address, or to that of what the address has, at first and when it changes.
function followView(page) {
  const { selection } = page;
  const follow = () => {
    const key = Object.keys(WHERE).find((one) => selection.get(one) !== undefined);
    const name = selection.get("view") || (selection.near === undefined ? WHERE[key] : undefined);
    if (name === undefined || name === selection.near) return;
    selection.near = name;
    const section = document.getElementById(`view-${name}`);
    if (section) goTo(section);
  };
  selection.subscribe(follow);
  requestAnimationFrame(follow);
}

// Views above are drawn first: they grow then.
function goTo(section) {
  for (const one of document.querySelectorAll("section.view")) {
    one.draw();
    if (one === section) break;
  }
  section.scrollIntoView();
  section.querySelector("h2").focus({ preventScroll: true });
  const chosen = section.querySelector(".chosen");
  if (chosen) chosen.scrollIntoView({ block: "nearest" });
}

// A view with its head; its body is drawn when it comes near the screen, or is printed.
function viewSection(view, page) {
  const { module, selection } = page;
  const body = el("div", { class: "body" });
  const how = page.made.how[view.name];
  const command = view.command(module, selection) ? commandLine(view.command(module, selection)) : null;
  selection.subscribe(() => { // it follows what is selected
    if (command) command.querySelector("code").textContent = view.command(module, selection);
  });
  const section = el("section", { class: "view", id: `view-${view.name}`, "aria-label": view.title },
    el("div", { class: "line" }, el("h2", { tabindex: "-1" }, view.title), how ? el("details", { class: "how" },
      el("summary", {}, "How to read this"), how.map((text) => el("p", {}, text))) : null, command), body);
  section.draw = () => {
    if (section.dataset.drawn || !section.isConnected) return;
    section.dataset.drawn = "true";
    watcher.disconnect();
    try {
      view.render(body, module && module.views[view.name], page);
    } catch (error) {
      replace(body, el("p", { class: "failed", role: "alert" },
        `This view could not be drawn: ${error.message}. The command above prints its numbers.`));
      console.error(error);
    }
  };
  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) section.draw();
  }, { rootMargin: "800px" });
  watcher.observe(section);
  addEventListener("beforeprint", section.draw);
  return section;
}

start().catch((error) => {
  document.getElementById("page").replaceChildren(
    document.createTextNode(`The data of this page could not be read: ${error.message}`));
  console.error(error);
});
