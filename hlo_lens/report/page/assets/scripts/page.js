// The page: head, list of modules, views one below the other, the selected value at the bottom.

import { readData } from "./data.js";
import { append, commandLine, el, replace } from "./dom.js";
import { formatBytes } from "./format.js";
import { Selection } from "./selection.js";
import { sectionBlock } from "./sections.js";
import { NOTHING, valueCard } from "./value_card.js";

const VIEWS = Object.entries(modules)
  .filter(([name]) => name.startsWith("views/"))
  .map(([, exported]) => exported.view);

async function start() {
  const main = document.getElementById("page");
  main.append(el("p", { class: "loading" }, "Reading the data of this page ..."));
  const [report, made] = await Promise.all([readData("hlo-lens-data"), readData("hlo-lens-views")]);
  const page = { report, made, strings: made.strings, selection: new Selection(), formatBytes };
  window.hloLens = page;
  document.documentElement.dataset.kind = made.kind;
  const show = () => showModule(main, page);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") page.selection.set(NOTHING);
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
  replace(main, head(page), navigation(page, views));
  const body = el("div", { class: "views" });
  main.append(body);
  const general = (isLeading) => page.made.sections.filter((one) => one.is_leading === isLeading)
    .map((section) => el("section", { class: "view" }, el("h2", {}, section.title),
      sectionBlock(section)));
  append(body, [...general(true), ...views.map((view) => viewSection(view, page)), ...general(false)]);
  main.append(foot(page), valueCard(page));
  main.dataset.ready = "true";
}

function viewOf(name) {
  return VIEWS.find((one) => one.name === name);
}

function head(page) {
  const { made, module } = page;
  const parts = [el("div", { class: "brand" }, "hlo-lens ", el("span", {}, made.kind))];
  parts.push(el("h1", {}, module ? module.title : made.title));
  if (module && module.role) parts.push(el("p", { class: "role" }, module.role));
  if (made.modules.length > 1) parts.push(modulePicker(page));
  return el("header", { class: "head" }, parts);
}

function modulePicker(page) {
  const picker = el("select", { id: "module" }, page.made.modules.map((one) =>
    el("option", { value: one.title, selected: one === page.module },
      one.role ? `${one.title} (${one.role})` : one.title)));
  picker.addEventListener("change", () => {
    page.selection.state = {};
    page.selection.set({ module: picker.value });
  });
  return el("p", {}, el("label", { for: "module" }, "module "), picker);
}

function navigation(page, views) {
  if (views.length < 2) return null;
  return el("nav", { "aria-label": "views" }, views.map((view) => el("a", {
    href: `#view-${view.name}`,
    onclick: (event) => {
      event.preventDefault();
      const target = document.getElementById(`view-${view.name}`);
      target.scrollIntoView({ behavior: calm() ? "auto" : "smooth" });
      target.querySelector("h2").focus({ preventScroll: true });
    },
  }, view.title)));
}

function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// A view with its head; its body is drawn when it comes near the screen, or is printed.
function viewSection(view, page) {
  const body = el("div", { class: "body" });
  const section = el("section", { class: "view", id: `view-${view.name}`, "aria-label": view.title },
    el("h2", { tabindex: "-1" }, view.title),
    el("details", { class: "how" }, el("summary", {}, "How to read this"),
      view.howToRead.map((sentence) => el("p", {}, sentence))),
    commandLine(view.command(page.module)), body);
  let isDrawn = false;
  const draw = () => {
    if (isDrawn) return;
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
