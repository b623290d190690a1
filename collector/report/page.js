"use strict";
// Text reaches the page through textContent alone; nothing is fetched.
(() => {
  const FIRST = 12; // tests that are listed at once
  const PART = 100; // more of them
  const TICKS = 4;
  const ROLES = {
    evidence: "the verdict rests on it",
    failure: "went wrong as well",
    dismissed: "looked like the cause, and was not",
    other: "what else was seen",
  };
  const { clusters } = JSON.parse(document.getElementById("data").textContent);
  const list = document.getElementById("clusters");
  const filter = document.getElementById("filter");
  const chosen = {}; // of application, domain, primitive and cause

  const make = (name, kind, text, ...children) => {
    const element = document.createElement(name);
    if (kind) element.className = kind;
    if (text !== undefined && text !== null) element.textContent = text;
    element.append(...children);
    return element;
  };
  const percent = (share) => `${Math.round(100 * share)}%`;
  const duration = (ms) => {
    if (ms >= 60000) return `${(ms / 60000).toFixed(1)} min`;
    if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
    if (!ms) return "0";
    return ms >= 10 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(2)} ms`;
  };

  // A line that opens and closes; what is below it is made when it is opened first.
  const foldable = (kind, parts, body) => {
    const line = make("button", "line", null, ...parts);
    line.type = "button";
    line.setAttribute("aria-expanded", "false");
    const whole = make("div", kind, null, line);
    line.open = (wanted) => {
      if (!line.below) {
        line.below = make("div", "body", null, ...body());
        whole.append(line.below);
      }
      line.below.hidden = !wanted;
      line.setAttribute("aria-expanded", String(wanted));
    };
    line.isOpen = () => line.getAttribute("aria-expanded") === "true";
    line.addEventListener("click", () => line.open(!line.isOpen()));
    return whole;
  };

  const axis = (timeline) => {
    const track = make("div", "track");
    for (let tick = 0; tick <= TICKS; tick++) {
      const label = make("span", "tick", duration((timeline.duration * tick) / TICKS));
      label.style.left = percent(tick / TICKS);
      track.append(label);
    }
    return make("div", "lane axis", null, make("span"), track, make("span"));
  };

  const place = (timeline, ms) =>
    `${timeline.duration ? Math.min(100, (100 * ms) / timeline.duration) : 0}%`;

  const lane = (timeline, one, index, marks) => {
    const name = make("span", "lane-name", `${one.name} ${one.pid}`);
    name.style.paddingLeft = `${Math.min(one.depth, 6)}em`;
    name.title = `${one.name}, process ${one.pid}`;
    const life = make("span", one.end === null ? "life open" : "life");
    const end = one.end === null ? timeline.duration : one.end;
    life.style.left = place(timeline, one.start);
    life.style.width = `calc(${place(timeline, end)} - ${place(timeline, one.start)})`;
    const track = make("div", "track", null, life);
    timeline.marks.forEach((mark, number) => {
      if (mark.lane !== index) return;
      const dot = make("span", `mark ${mark.role}`);
      dot.style.left = place(timeline, mark.at);
      dot.title = `${duration(mark.at)} ${mark.words}`;
      marks[number] = dot;
      track.append(dot);
    });
    const ended = make("span", "ended", one.ended || (one.end === null ? "no end seen" : ""));
    return make("div", one.failed ? "lane failed" : "lane", null, name, track, ended);
  };

  const eventLine = (timeline, mark) => {
    const spot = make("span", "spot", null, make("span", `mark ${mark.role}`));
    const owner = timeline.lanes[mark.lane];
    const words = mark.reason ? `${mark.words} (not it: ${mark.reason})` : mark.words;
    return make("li", mark.role, null, spot, make("span", "at", duration(mark.at)),
      make("span", "lane-name", `${owner.name} ${owner.pid}`), make("span", "what", words));
  };

  const legend = (timeline) => {
    const present = new Set(timeline.marks.map((mark) => mark.role));
    const entries = Object.entries(ROLES).filter(([role]) => present.has(role));
    const whole = make("div", "legend");
    for (const [role, words] of entries) {
      whole.append(make("span", "", null, make("i", "", null, make("span", `mark ${role}`)), words));
    }
    return whole;
  };

  const picture = (timeline) => {
    if (!timeline.lanes.length) return [make("p", "note", "No events of this test are known.")];
    const marks = [];
    const lanes = timeline.lanes.map((one, index) => lane(timeline, one, index, marks));
    const whole = make("div", "timeline", null, axis(timeline), ...lanes, legend(timeline));
    const lines = timeline.marks.map((mark) => eventLine(timeline, mark));
    const events = make("ol", "events", null, ...lines);
    whole.tabIndex = 0;
    whole.setAttribute("role", "group");
    whole.setAttribute("aria-label", "timeline; arrow keys go from event to event");
    let now = -1;
    const show = (number, scroll) => {
      if (now >= 0) [marks[now], lines[now]].forEach((one) => one.classList.remove("now"));
      now = number;
      [marks[now], lines[now]].forEach((one) => one.classList.add("now"));
      if (scroll) lines[now].scrollIntoView({ block: "nearest" });
    };
    marks.forEach((dot, number) => dot.addEventListener("mouseenter", () => show(number, true)));
    lines.forEach((line, number) => line.addEventListener("mouseenter", () => show(number, false)));
    whole.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || !lines.length) return;
      event.preventDefault();
      show(Math.max(0, Math.min(lines.length - 1, now + step)), true);
    });
    const shown = [whole, events];
    const left = [[timeline.lanes_left_out, "processes"], [timeline.marks_left_out, "events"]]
      .filter(([count]) => count).map(([count, what]) => `${count} ${what}`);
    if (left.length) shown.push(make("p", "note", `not shown: ${left.join(", ")}`));
    return shown;
  };

  const facts = (test) => {
    const told = make("dl", "facts");
    const add = (name, text, kind) => {
      if (!text) return;
      const value = kind ? make("dd", "", null, make(kind, "", text)) : make("dd", "", text);
      told.append(make("dt", "", name), value);
    };
    add("command", test.command, "code");
    add("said", test.message, "pre");
    add("sandbox", test.sandbox, "code");
    add("started", test.started_at);
    for (const one of test.others) add("or", `${one.cause} (${percent(one.confidence)}): ${one.summary}`);
    if (test.blind.length) add("not seen", test.blind.join("; "));
    if (test.lost) add("lost", `${test.lost} events`);
    if (test.guessed) add("matched", "by sandbox and time alone: less is sure");
    return told;
  };

  const testLine = (test) =>
    foldable("test", [
      make("span", "test-name", test.id),
      make("span", "place", `${test.application} · ${test.domain}`),
      make("span", "ended", test.ended ? `${test.outcome}, ${test.ended}` : test.outcome),
      make("span", "sure", percent(test.confidence)),
    ], () => [make("p", "said", test.summary), facts(test), ...picture(test.timeline)]);

  const testList = (tests, missing) => {
    const whole = make("div");
    const more = make("button", "more");
    more.type = "button";
    let at = 0;
    const extend = (count) => {
      whole.append(...tests.slice(at, at + count).map(testLine));
      at = Math.min(tests.length, at + count);
      more.hidden = at === tests.length;
      more.textContent = `${tests.length - at} more`;
    };
    more.addEventListener("click", () => extend(PART));
    extend(FIRST);
    const note = missing ? [make("p", "note", `and ${missing} that are counted, but not shown`)] : [];
    return [whole, more, ...note];
  };

  const clusterLine = (cluster, tests, isFiltered) => {
    const cause = make("span", "", null, make("code", `cause layer-${cluster.layer}`, cluster.cause));
    const count = isFiltered ? tests.length : cluster.count;
    const missing = isFiltered ? 0 : cluster.count - cluster.tests.length;
    return foldable("cluster", [
      make("span", "count number", count), cause, make("span", "summary", cluster.summary),
    ], () => [
      ...(cluster.advice ? [make("p", "do", cluster.advice)] : []), ...testList(tests, missing),
    ]);
  };

  // What a filter looks through, lower case.
  const haystack = (cluster, test) => {
    test.words ??= [cluster.cause, cluster.layer, cluster.primitive, test.id, test.application,
      test.domain, test.sandbox, test.summary, test.message, test.command,
      ...test.timeline.lanes.map((one) => one.name),
      ...test.timeline.marks.map((one) => one.words)].join("\n").toLowerCase();
    return test.words;
  };
  const matches = (cluster, test, words) => {
    const about = { application: test.application, domain: test.domain,
      primitive: cluster.primitive, cause: cluster.cause };
    return Object.entries(chosen).every(([name, value]) => about[name] === value)
      && words.every((word) => haystack(cluster, test).includes(word));
  };

  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isFiltered = words.length > 0 || Object.keys(chosen).length > 0;
    let total = 0;
    const shown = [];
    for (const cluster of clusters) {
      const tests = isFiltered
        ? cluster.tests.filter((test) => matches(cluster, test, words)) : cluster.tests;
      if (!tests.length && isFiltered) continue;
      total += isFiltered ? tests.length : cluster.count;
      shown.push(clusterLine(cluster, tests, isFiltered));
    }
    list.replaceChildren(...shown);
    document.getElementById("matching").textContent =
      `${total} ${total === 1 ? "test" : "tests"}, ${shown.length} explanations`;
    showChosen();
  };

  const showChosen = () => {
    const chips = Object.entries(chosen).map(([name, value]) => {
      const chip = make("button", "chip", `${name}: ${value} ✕`);
      chip.type = "button";
      chip.addEventListener("click", () => { delete chosen[name]; show(); });
      return chip;
    });
    document.getElementById("chosen").replaceChildren(...chips);
    for (const cell of cells) cell.setAttribute("aria-pressed", String(isChosen(cell)));
  };

  const clear = () => {
    filter.value = "";
    for (const name of Object.keys(chosen)) delete chosen[name];
    show();
  };

  // Heat maps: one cell of each is in the tab order, arrows go to the others.
  const cells = [...document.querySelectorAll(".heat button")];
  const isChosen = (cell) => {
    const names = Object.keys(cell.dataset);
    return names.length === Object.keys(chosen).length
      && names.every((name) => chosen[name] === cell.dataset[name]);
  };
  const go = (cell, down, right) => {
    const table = cell.closest("tbody");
    let row = cell.closest("tr").rowIndex - table.rows[0].rowIndex;
    let column = cell.closest("td").cellIndex;
    for (;;) {
      row += down;
      column += right;
      const next = table.rows[row]?.cells[column];
      if (!next || column < 1) return;
      const button = next.querySelector("button");
      if (button) {
        cell.tabIndex = -1;
        button.tabIndex = 0;
        button.focus();
        return;
      }
    }
  };
  const ARROWS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  for (const table of document.querySelectorAll(".heat")) {
    table.querySelector("button")?.setAttribute("tabindex", "0");
  }
  for (const cell of cells) {
    cell.addEventListener("click", () => {
      const wanted = isChosen(cell) ? {} : { ...cell.dataset };
      for (const name of Object.keys(chosen)) delete chosen[name];
      for (const [name, value] of Object.entries(wanted)) {
        if (value !== "(others)") chosen[name] = value;
      }
      show();
      document.getElementById("failures").scrollIntoView({ block: "start" });
    });
    cell.addEventListener("keydown", (event) => {
      if (!ARROWS[event.key]) return;
      event.preventDefault();
      go(cell, ...ARROWS[event.key]);
    });
  }

  const lines = () => [...list.querySelectorAll(".line")].filter((one) => one.offsetParent);
  const move = (step) => {
    const all = lines();
    const at = all.indexOf(document.activeElement.closest?.(".line"));
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  const fold = (wanted) => {
    const line = document.activeElement.closest?.(".line");
    if (!line) return false;
    if (!wanted && !line.isOpen()) {
      line.closest(".body")?.previousElementSibling?.focus();
    } else {
      line.open(wanted);
    }
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape") {
      clear();
      filter.blur();
      return;
    }
    if (event.target === filter) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") filter.focus();
    else if (event.key === "ArrowRight" && fold(true)) { /* opened */ }
    else if (event.key === "ArrowLeft" && fold(false)) { /* closed */ }
    else return;
    event.preventDefault();
  });
  let waiting;
  filter.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 120);
  });

  show();
  const first = list.querySelector(".line");
  first?.open(true);
  list.querySelector(".test .line")?.open(true);
})();
