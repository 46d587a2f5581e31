"use strict";
for (const tools of document.querySelectorAll(".tools")) {
  const objects = [...tools.parentElement.querySelectorAll("details.object, tbody tr")];
  const field = tools.querySelector("input");
  const button = tools.querySelector("button");
  tools.hidden = false;
  if (field) field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const one of objects) {
      const text = (one.querySelector("summary") || one).textContent.toLowerCase();
      one.hidden = !words.every((word) => text.includes(word));
    }
  });
  if (button) button.addEventListener("click", () => {
    const open = button.textContent === "Open all";
    for (const one of objects) one.open = open;
    button.textContent = open ? "Close all" : "Open all";
  });
}
const live = document.body.dataset.live;
if (live && "EventSource" in window) {
  const events = new EventSource(live);
  events.addEventListener("changed", () => {
    const note = document.getElementById("changed");
    if (note) note.hidden = false;
  });
}
