// The page: head, list of modules, views one below the other, the selected value at the bottom.

import { followFocus } from "./card_focus.js";
import { readData } from "./data.js";
import { commandLine, el, replace } from "./dom.js";
import { formatBytes } from "./format.js";
import { guide } from "./guide.js";
import { Selection } from "./selection.js";
import { sectionBlock } from "./sections.js";
import { closeCard, valueCard } from "./value_card.js";

const VIEWS = Object.entries(modules)
  .filter(([name]) => name.startsWith("views/"))
  .map(([, exported]) => exported.view);

const MOST_LINKS = 12;

async function start() {
  const main = document.getElementById("page");
  main.append(el("p", { class: "loading" }, "Reading the data of this page ..."));
  const [report, made] = await Promise.all([readData("hlo-lens-data"), readData("hlo-lens-views")]);
  const page = { report, made, strings: made.strings, selection: new Selection(), formatBytes };
  window.hloLens = page;
  document.documentElement.dataset.kind = made.kind;
  const show = () => showModule(main, page);
  addEventListener("beforeprint", () => document.body.classList.add("paper"));
  addEventListener("afterprint", () => document.body.classList.remove("paper"));
  page.giveBackFocus = followFocus();
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeCard(page);
  });
  show();
}

function chosenModule(page) {
  const title = page.selection.get("module");
  return page.made.modules.find((one) => one.title === title) || page.made.modules[0];
}

function showModule(main, page) {
  const module = chosenModule(page);
  page.module = module;
  page.selection.listeners.clear();
  page.selection.subscribe(() => {
    if (chosenModule(page) === page.module) return true;
    showModule(main, page);
    return false;
  });
  const object = module ? (page.report.modules || [])[module.number] : null;
  page.object = module ? module.objects.report || object : null;
  page.changes = module ? module.objects.diff || object : null;
  const views = module ? Object.keys(module.views).map(viewOf).filter(Boolean) : [];
  const general = page.made.sections.map((section, k) => [section.is_leading, el("section",
    { class: "view", id: `view-section${k}`, "aria-label": section.title },
    el("h2", { tabindex: "-1" }, section.title),
    sectionBlock(section, (title) => openModule(page, title)))]);
  const leading = (isLeading) => general.filter(([is]) => is === isLeading).map(([, one]) => one);
  const all = [...leading(true), ...views.map((view) => viewSection(view, page)), ...leading(false)];
  replace(main, head(page), navigation(page, all), el("div", { class: "views" }, all), foot(page),
    valueCard(page));
  followView(page);
  main.dataset.ready = "true";
}

function viewOf(name) {
  return VIEWS.find((one) => one.name === name);
}

function head(page) {
  const { made, module } = page;
  const parts = [el("div", { class: "brand" }, `hlo-lens \u00b7 ${made.kind}`)];
  parts.push(el("h1", {}, module ? module.title : made.title));
  if (module && module.role) parts.push(el("p", { class: "role" }, module.role));
  if (made.modules.length > 1) parts.push(modulePicker(page));
  if (module) parts.push(guide(made.kind));
  return el("header", { class: "head" }, parts);
}

function modulePicker(page) {
  const picker = el("select", { id: "module" }, page.made.modules.map((one) =>
    el("option", { value: one.title, selected: one === page.module },
      one.role ? `${one.title} (${one.role})` : one.title)));
  picker.addEventListener("change", () => {
    openModule(page, picker.value);
    document.getElementById("module").focus();
  });
  return el("p", {}, el("label", { for: "module" }, "module "), picker);
}

function openModule(page, title) {
  page.selection.state = {};
  page.selection.set({ module: title });
  scrollTo(0, 0);
}

function navigation(page, sections) {
  if (sections.length < 2 || sections.length > MOST_LINKS) return null;
  return el("nav", { "aria-label": "views" }, sections.map((section) => {
    const name = section.id.slice("view-".length);
    return el("a", {
      href: `#w=${name}`,
      onclick: (event) => {
        event.preventDefault();
        page.view = name;
        page.selection.set({ view: name });
        goTo(section);
      },
    }, section.getAttribute("aria-label"));
  }));
}

// Go to the view in the address, at first and when the address changes.
function followView(page) {
  page.view = undefined;
  const follow = () => {
    const name = page.selection.get("view");
    if (name === page.view) return;
    page.view = name;
    const section = name === undefined ? null : document.getElementById(`view-${name}`);
    if (section) goTo(section);
  };
  page.selection.subscribe(follow);
  requestAnimationFrame(follow);
}

// Views above are drawn first: they grow then.
function goTo(section) {
  for (const one of document.querySelectorAll("section.view")) {
    if (one.draw) one.draw();
    if (one === section) break;
  }
  section.scrollIntoView({ behavior: calm() ? "auto" : "smooth" });
  section.querySelector("h2").focus({ preventScroll: true });
}

function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// The command that prints the numbers of a view, as it is selected.
function viewCommand(view, page) {
  const { module } = page;
  const made = commandLine(view.command(module, page.selection));
  page.selection.subscribe(() => {
    if (page.module !== module) return false;
    made.querySelector("code").textContent = view.command(module, page.selection);
    return true;
  });
  return made;
}

// A view with its head; its body is drawn when it comes near the screen, or is printed.
function viewSection(view, page) {
  const body = el("div", { class: "body" });
  const section = el("section", { class: "view", id: `view-${view.name}`, "aria-label": view.title },
    el("h2", { tabindex: "-1" }, view.title),
    el("details", { class: "how" }, el("summary", {}, "How to read this"),
      view.howToRead.map((sentence) => el("p", {}, sentence))),
    viewCommand(view, page), body);
  let isDrawn = false;
  const draw = () => {
    if (isDrawn || !section.isConnected) return;
    isDrawn = true;
    watcher.disconnect();
    try {
      view.render(body, page.module.views[view.name], page);
    } catch (error) {
      replace(body, el("p", { class: "failed", role: "alert" },
        `This view could not be drawn: ${error.message}. The command above prints its numbers.`));
      console.error(error);
    }
    section.dataset.drawn = "true";
  };
  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) draw();
  }, { rootMargin: "800px" });
  watcher.observe(section);
  addEventListener("beforeprint", draw);
  section.draw = draw;
  return section;
}

function foot(page) {
  const save = el("button", { type: "button", onclick: () => download(page) },
    "Save the data (JSON)");
  return el("footer", {},
    `Made by hlo-lens ${page.made.tool_version}. This file loads nothing from the network; `
    + "it contains its data. ", save);
}

function download(page) {
  const text = JSON.stringify(page.report);
  const link = el("a", { download: `${page.made.kind}.json`,
    href: URL.createObjectURL(new Blob([text], { type: "application/json" })) });
  link.click();
  URL.revokeObjectURL(link.href);
}

start().catch((error) => {
  document.getElementById("page").replaceChildren(
    document.createTextNode(`The data of this page could not be read: ${error.message}`));
  console.error(error);
});
