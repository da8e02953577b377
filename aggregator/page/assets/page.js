// Keeps the page current: the server sends the parts that changed, and each is brought up to date in place, so that
// focus, scrolling and what is unfolded stay. Without this script the page reloads itself.
"use strict";

const said = document.createElement("p");
said.className = "lost";
said.setAttribute("role", "alert");

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
}

function become(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((node, at) => {
    const there = before[at];
    if (!there) old.append(node);
    else if (sameKind(there, node)) become(there, node);
    else there.replaceWith(node);
  });
  before.slice(after.length).forEach((node) => node.remove());
}

function take(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const old = document.getElementById(id);
    const made = document.createElement("template");
    made.innerHTML = html;
    const fresh = made.content.firstElementChild;
    if (old && fresh) become(old, fresh);
    else if (fresh) return location.reload(); // the first look is over, or the hub has another shape
  }
}

const ending = ` · ${document.querySelector("span.hub").textContent} · aggregator`;

// A word that is looked for hides the topics that do not have it; what is folded away is looked through, too.
const looked = document.getElementById("filter");

function sift() {
  if (!looked) return;
  const word = looked.value.trim().toLowerCase();
  for (const one of document.querySelectorAll("[data-name]")) {
    one.classList.toggle("unmatched", !one.dataset.name.toLowerCase().includes(word));
  }
  const rest = document.getElementById("topics-rest");
  if (rest && word) rest.open = true;
}

function copied(event) {
  if (!event.target.matches(".copy")) return;
  navigator.clipboard.writeText(event.target.previousElementSibling.textContent).then(() => {
    event.target.textContent = "Copied";
    setTimeout(() => { event.target.textContent = "Copy"; }, 2000);
  });
}

document.documentElement.classList.add("scripted");
if (navigator.clipboard) {
  document.documentElement.classList.add("copies");
  document.addEventListener("click", copied);
}
if (looked) {
  looked.addEventListener("input", sift);
  looked.form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("pageshow", sift);
}

function listen() {
  const source = new EventSource(document.body.dataset.changes);
  source.addEventListener("parts", (event) => {
    said.remove();
    take(JSON.parse(event.data));
    sift();
    document.title = document.querySelector("h1").textContent.trim().replace(/\s+/g, " ") + ending;
  });
  source.onerror = () => {
    said.textContent = "The page’s server does not answer. What is shown is old; it goes on by itself.";
    document.querySelector(".top").after(said);
    if (!document.title.startsWith("Not current")) document.title = `Not current: ${document.title}`;
    // It refused, and will not be asked again: the session may be over, which a reload shows.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 2000);
  };
}

listen();
