// The focus of the keyboard and the card: what is opened with a key moves the focus to the card,
// and closing the card gives it back. A click of a pointer leaves the focus where it is.

const OPENERS = "button.name, button.box, canvas.heap, canvas.lanes";
const CONTROLS = "button, summary, select, input, a, [tabindex]";

export function followFocus() {
  let opener = null;
  const enter = (target) => {
    const card = document.querySelector("aside.card:not([hidden])");
    if (!card || !(target instanceof Element)) return;
    if (!card.contains(target)) opener = placeOf(document.activeElement) || opener;
    card.querySelector("h2").focus();
  };
  addEventListener("click", (event) => {
    const isKey = event.detail === 0 && event.isTrusted;
    if (isKey && event.target instanceof Element && event.target.closest(OPENERS)) enter(event.target);
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target instanceof HTMLCanvasElement) enter(event.target);
  });
  // Give the focus back after the card is closed.
  return () => {
    const control = opener && controlAt(opener);
    opener = null;
    if (control) control.focus({ preventScroll: true });
  };
}

// The named part of the page that a control is in, and its number there: parts are drawn anew when
// the selection changes.
function placeOf(control) {
  const part = control && control.parentElement && control.parentElement.closest("[aria-label]");
  if (!part || !part.closest("section.view")) return null;
  return { label: part.getAttribute("aria-label"),
    number: [...part.querySelectorAll(CONTROLS)].indexOf(control) };
}

function controlAt({ label, number }) {
  const part = [...document.querySelectorAll("section.view, section.view [aria-label]")]
    .find((one) => one.getAttribute("aria-label") === label);
  return part && part.querySelectorAll(CONTROLS)[number];
}
