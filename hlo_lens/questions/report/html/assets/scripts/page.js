// The page: head, list of modules, views one below the other, the selected value at the bottom.

import { followKeys, makeCard } from "card";
import { readData } from "data";
import { append, button, commandLine, el, replace } from "dom";
import { formatBytes } from "format";
import { moduleList } from "modules";
import { Selection } from "selection";
import { sectionBlock } from "sections";

const MOST_LINKS = 12;
const VIEWS = new Map();
const WHERE = { "q.alive": "alive", picture: "alive", by: "alive", allocation: "alive", value: "alive",
  instruction: "program", "q.collectives": "collectives", "q.program": "program", "q.sharding": "sharding", "q.source": "source",
  "q.changes": "diff" }; // views of what an address without a view has

async function start() {
  const main = document.getElementById("page");
  append(main, [el("p", { class: "loading" }, "Reading the data of this page ...")]);
  const [report, made] = await Promise.all([readData("hlo-lens-data"), readData("hlo-lens-views")]);
  const names = new Set(made.modules.flatMap((one) => Object.keys(one.views)));
  await Promise.all([...names].map(async (name) => VIEWS.set(name, (await import(`views/${name}`)).view)));
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
    showModule(main, page);
    return false;
  });
  const object = module ? (page.report.modules || [])[module.number] : null;
  page.object = module ? module.objects.report || object : null;
  page.changes = module ? module.objects.diff || object : null;
  const open = (title) => openModule(page, title);
  const views = module ? Object.keys(module.views).map((name) => VIEWS.get(name)) : [];
  const general = (isLeading) => page.made.sections.map((section, k) => [section, k])
    .filter(([section]) => section.is_leading === isLeading).map(([section, k]) => el("section",
      { class: "view", id: `view-section${k}`, "aria-label": section.title },
      el("h2", { tabindex: "-1" }, section.title), sectionBlock(section, page, open)));
  const modules = page.made.kind !== "ls" || module ? [] : [el("section", { class: "view", id: "view-modules",
    "aria-label": "Modules" }, el("h2", { tabindex: "-1" }, "Modules"), moduleList(page))];
  const all = [...modules, ...general(true), ...views.map((view) => viewSection(view, page)), ...general(false)];
  replace(main, head(page), navigation(page, all), el("div", { class: "views" }, all), foot(page), makeCard(page));
  followView(page);
  main.dataset.ready = "true";
}

function head({ made, module, ...page }) {
  const verdict = module && module.verdict;
  return el("header", { class: "head" },
    el("div", { class: "line" }, el("h1", {}, module ? module.title : made.title),
      module ? el("span", { class: "role" }, [module.role, module.devices].filter(Boolean).join("; ")) : null,
      made.modules.length > 1 && module ? modulePicker({ made, module, ...page }) : null,
      made.kind === "ls" && module ? button("all modules", () => openModule({ made, ...page }, undefined)) : null,
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

function openModule(page, title) {
  page.selection.state = Object.create(null);
  page.selection.near = undefined;
  page.selection.set({ module: title });
  if (title === undefined) page.selection.tell();
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
    if (one.draw) one.draw();
    if (one === section) break;
  }
  section.scrollIntoView();
  section.querySelector("h2").focus({ preventScroll: true });
  const chosen = section.querySelector(".chosen");
  if (chosen) chosen.scrollIntoView({ block: "nearest" });
}

// A view with its head; its body is drawn when it comes near the screen, or is printed.
function viewSection(view, page) {
  const { module } = page;
  const body = el("div", { class: "body" });
  const command = commandLine(view.command(module, page.selection)); // follows what is selected
  page.selection.subscribe(() => {
    command.querySelector("code").textContent = view.command(module, page.selection);
  });
  const section = el("section", { class: "view", id: `view-${view.name}`, "aria-label": view.title },
    el("div", { class: "line" }, el("h2", { tabindex: "-1" }, view.title), el("details", { class: "how" },
      el("summary", {}, "How to read this"), page.made.how[view.name].map((text) => el("p", {}, text))), command), body);
  const draw = () => {
    if (section.dataset.drawn || !section.isConnected) return;
    section.dataset.drawn = "true";
    watcher.disconnect();
    try {
      view.render(body, module.views[view.name], page);
    } catch (error) {
      replace(body, el("p", { class: "failed", role: "alert" },
        `This view could not be drawn: ${error.message}. The command above prints its numbers.`));
      console.error(error);
    }
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
  const save = () => {
    const link = el("a", { download: `${page.made.kind}.json`,
      href: URL.createObjectURL(new Blob([JSON.stringify(page.report)], { type: "application/json" })) });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return el("footer", {}, `Made by hlo-lens ${page.made.tool_version}. This file loads nothing from the network; `
    + "it contains its data. ", button("Save the data (JSON)", save));
}

start().catch((error) => {
  document.getElementById("page").replaceChildren(
    document.createTextNode(`The data of this page could not be read: ${error.message}`));
  console.error(error);
});
