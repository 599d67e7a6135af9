// Draws /openapi.json. Text is only ever set as text, never as markup.
"use strict";

function add(parent, name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function link(parent, text, target) {
  const made = add(parent, "a", text);
  made.href = target;
  return made;
}

/** Text in which `marks` are code. */
function addMarked(parent, text) {
  for (const [place, part] of text.split("`").entries()) {
    if (place % 2 === 1) add(parent, "code", part);
    else parent.append(part);
  }
}

/** A path that is broken between its parts where it is too long for a line. */
function addPath(parent, path) {
  for (const part of path.split(/(?=[/:])/)) {
    parent.append(part);
    add(parent, "wbr");
  }
}

function nameOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(nameOf).join(" | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `list of ${nameOf(schema.items)}`;
  if (schema.type === "object" && schema.additionalProperties) return "mapping";
  return schema.type || "any";
}

function table(parent, heads, rows) {
  const box = add(parent, "div"); // what is too wide for a phone scrolls in here, also by keyboard
  box.className = "box";
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", heads.filter(Boolean).join(", "));
  const made = add(box, "table");
  const head = add(add(made, "thead"), "tr");
  for (const text of heads) add(head, "th", text);
  const body = add(made, "tbody");
  for (const row of rows) {
    const line = add(body, "tr");
    for (const text of row) addMarked(add(line, "td"), text);
  }
}

function drawSchema(parent, schema) {
  if (schema && schema.type) addMarked(add(parent, "p"), schema.description || "");
  if (!schema || !schema.properties) return;
  const required = new Set(schema.required || []);
  const rows = Object.entries(schema.properties).map(([name, field]) => [
    name, nameOf(field), required.has(name) ? "yes" : "", field.description || "",
  ]);
  if (rows.length) table(parent, ["Field", "Type", "Required", ""], rows);
}

function drawBody(parent, title, content, spec) {
  for (const [media, { schema }] of Object.entries(content || {})) {
    const part = add(parent, "details");
    add(part, "summary", `${title}: ${nameOf(schema)} (${media})`);
    drawSchema(part, schema.$ref ? spec.components.schemas[nameOf(schema)] : schema);
  }
}

function drawResponses(parent, responses, spec) {
  add(parent, "h4", "Answers");
  const rows = Object.entries(responses).map(([status, answer]) => {
    const found = answer.$ref ? spec.components.responses[answer.$ref.split("/").pop()] : answer;
    return [status, found.description];
  });
  table(parent, ["Status", ""], rows);
}

function drawOperation(parent, path, [method, operation], spec) {
  const title = add(parent, "h3");
  title.id = operation.operationId;
  add(title, "span", method.toUpperCase()).className = "method";
  addPath(add(title, "code"), path);
  addMarked(add(parent, "p"), `${operation.summary} ${operation.description}`);
  if (operation.parameters.length) {
    table(parent, ["Parameter", "In", "Type", ""], operation.parameters.map((one) => [
      one.name, one.in, nameOf(one.schema), one.description || "",
    ]));
  }
  if (operation.requestBody) drawBody(parent, "Body", operation.requestBody.content, spec);
  for (const [status, answer] of Object.entries(operation.responses)) {
    if (status < "300") drawBody(parent, `Answer ${status}`, answer.content, spec);
  }
  drawResponses(parent, operation.responses, spec);
}

function drawCodes(parent, responses) {
  add(parent, "h2", "Error codes");
  for (const [code, answer] of Object.entries(responses)) {
    const title = add(parent, "h3");
    title.id = code;
    add(title, "code", code);
    addMarked(add(parent, "p"), answer.description);
  }
}

function draw(spec) {
  document.getElementById("state").textContent = `Version ${spec.info.version}`;
  addMarked(document.getElementById("about"), spec.info.description);
  const contents = document.getElementById("contents");
  const operations = document.getElementById("operations");
  for (const { name: tag } of spec.tags) {
    add(operations, "h2", tag);
    const list = add(contents, "ul");
    for (const [path, methods] of Object.entries(spec.paths)) {
      for (const entry of Object.entries(methods)) {
        if (!entry[1].tags.includes(tag)) continue;
        addPath(link(add(list, "li"), `${entry[0].toUpperCase()} `, `#${entry[1].operationId}`), path);
        drawOperation(operations, path, entry, spec);
      }
    }
  }
  drawCodes(operations, spec.components.responses);
}

async function load() {
  try {
    const answer = await fetch("openapi.json");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    draw(await answer.json());
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch (error) {
    document.getElementById("state").textContent = `The operations cannot be shown: ${error.message}`;
  }
}

load();
