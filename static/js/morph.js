// hx-swap="morph": changes an element in place into the one that arrived, so that focus, selection, open details,
// scroll positions and meters on their way survive a live update.
// An element with data-keep is left as it is (a chart or a log that its own module fills).

const KEPT_BY_THE_READER = { INPUT: ["value", "checked"], DETAILS: ["open"], DIALOG: ["open"] };

function key(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || null : null;
}

function alike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && key(old) === key(fresh);
}

function morphAttributes(old, fresh) {
  const kept = KEPT_BY_THE_READER[old.nodeName] ?? [];
  for (const { name, value } of [...fresh.attributes]) {
    if (!kept.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!kept.includes(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

// Without a key the next element of the same kind is taken; text is only ever taken where it stands.
function nextAlike(place, wanted) {
  let node = place;
  while (node && !alike(node, wanted)) node = wanted.nodeType === Node.ELEMENT_NODE ? node.nextSibling : null;
  return node;
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (key(child)) keyed.set(key(child), child);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = key(wanted) ? keyed.get(key(wanted)) : nextAlike(place, wanted);
    if (known && alike(known, wanted)) {
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, wanted);
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

export function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return old;
  }
  if (old.hasAttribute("data-keep") && fresh.hasAttribute("data-keep")) return old;
  if (old.isEqualNode(fresh)) return old;
  morphAttributes(old, fresh);
  morphChildren(old, fresh);
  return old;
}

window.htmx.defineExtension("morph", {
  isInlineSwap: (style) => style === "morph",
  handleSwap(style, target, fragment) {
    if (style !== "morph") return false;
    const fresh = fragment.firstElementChild ?? fragment;
    if (!fresh.isEqualNode || fresh.nodeName !== target.nodeName) return false;
    return [morph(target, fresh)];
  },
});
