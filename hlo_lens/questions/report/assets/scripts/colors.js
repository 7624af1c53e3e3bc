// Colours of roles and of text on canvases, from the style sheet, so that dark and print follow.

import { el } from "dom";

const changes = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print")];

export function roleSlug(role) {
  return role.replace(/[^a-z]+/g, "-");
}

export function swatch(role) {
  return el("span", { class: `swatch ${roleSlug(role)}`, "aria-hidden": "true" });
}

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function roleColor(role) {
  return css(`--role-${roleSlug(role)}`) || css("--role-other");
}

// Call a function when the colours change, and before and after printing.
export function onColors(listener) {
  for (const one of changes) one.addEventListener("change", listener);
  for (const name of ["beforeprint", "afterprint"]) addEventListener(name, listener);
}

// Fill of a role on a canvas: its colour with a texture, for readers who do not tell colours apart.
export function roleFill(context, role) {
  const texture = TEXTURES[role];
  return texture ? tiled(context, 8, texture, css("--texture"), roleColor(role)) : roleColor(role);
}

function tiled(context, size, lines, color, background) {
  const tile = el("canvas", { width: size, height: size });
  const draw = tile.getContext("2d");
  if (background) {
    draw.fillStyle = background;
    draw.fillRect(0, 0, size, size);
  }
  draw.strokeStyle = color;
  draw.beginPath();
  for (const [x1, y1, x2, y2] of lines) {
    draw.moveTo(x1 * size, y1 * size);
    draw.lineTo(x2 * size, y2 * size);
  }
  draw.stroke();
  return context.createPattern(tile, "repeat");
}

const RISING = [[-0.25, 0.25, 0.25, -0.25], [0, 1, 1, 0], [0.75, 1.25, 1.25, 0.75]];
const FALLING = [[-0.25, 0.75, 0.25, 1.25], [0, 0, 1, 1], [0.75, -0.25, 1.25, 0.25]];
const LEVEL = [[0, 0.5, 1, 0.5]];
const UPRIGHT = [[0.5, 0, 0.5, 1]];
const DASHES = [[0.15, 0.25, 0.6, 0.25], [0.55, 0.75, 1, 0.75]];
const DOTS = [[0.2, 0.25, 0.35, 0.25], [0.7, 0.75, 0.85, 0.75]];

// Roles whose colours colour-blind people could take for each other have different textures.
const TEXTURES = {
  "optimizer state": FALLING,
  "gathered weights": RISING,
  "copies of weights": [...RISING, ...LEVEL],
  "copies of arguments": [...FALLING, ...LEVEL],
  "gradients": LEVEL,
  "outputs": UPRIGHT,
  "constants": [...LEVEL, ...UPRIGHT],
  "inputs": DASHES,
  "caches": DOTS,
  "other": [...RISING, ...FALLING],
};
