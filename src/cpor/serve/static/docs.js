// The documentation of the API, drawn from /openapi.json. No other host is asked.

import * as api from "./api.js";
import { byId, el, prose, show } from "./dom.js";

const MOST_DEEP = 3; // fields of fields of fields

const resolve = (spec, schema) => (schema?.$ref ? spec.components.schemas[schema.$ref.split("/").at(-1)] : schema) ?? {};

/** The kind of a value in words: "number from 0 to 1", "list of RelationMessage", "a or b". */
function kindOf(spec, schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return either.map((each) => kindOf(spec, each)).join(" or ");
  if (schema.type === "array") return `list of ${kindOf(spec, schema.items ?? {})}`;
  if (schema.format === "binary") return "file";
  const { minimum, maximum } = schema;
  const small = Math.abs(maximum ?? 1e9) < 1e9;
  return (schema.type ?? "anything") + (minimum !== undefined && small ? ` from ${minimum} to ${maximum}` : "");
}

/** What an "Attributes:" part of a docstring says of each field; the rest of the text under "". */
function saidOf(text = "") {
  const [about, fields = ""] = text.split(/\n\s*Attributes:\n/);
  const said = { "": about.trim() };
  for (const [, names, words] of fields.matchAll(/^\s+([\w, ]+): ((?:.|\n(?!\s+[\w, ]+: ))+)/gm)) {
    for (const name of names.split(", ")) said[name] = words.replace(/\s+/g, " ").trim();
  }
  return said;
}

function rowsOf(spec, schema, prefix = "", deep = 0) {
  const of = resolve(spec, schema);
  const said = saidOf(of.description);
  return Object.entries(of.properties ?? {}).flatMap(([name, field]) => {
    const must = of.required?.includes(name) ? "needed" : field.default !== undefined ? JSON.stringify(field.default) : "";
    const inner = field.$ref ? field : field.items?.$ref ? field.items : null;
    const row = el("tr", {}, el("td", {}, el("code", {}, prefix + name)), el("td", {}, kindOf(spec, field)), el("td", {}, must),
      el("td", {}, ...prose(field.description ?? said[name] ?? "")));
    const more = inner && deep < MOST_DEEP ? rowsOf(spec, inner, `${prefix}${name}${field.items ? "[]" : ""}.`, deep + 1) : [];
    return [row, ...more];
  });
}

function table(spec, title, schema) {
  const rows = rowsOf(spec, schema);
  if (rows.length === 0) return null;
  const head = ["Field", "Kind", "Default", "Meaning"].map((each) => el("th", { scope: "col" }, each));
  return [el("h3", {}, title), el("div", { class: "table", tabindex: 0, role: "region", "aria-label": title },
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)))];
}

/** The request as curl sends it: what is needed, with a stand-in for each value. */
function curl(method, path, body, spec) {
  const start = `curl -s ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${location.origin}${path}`;
  if (!body) return start;
  const [type, { schema }] = Object.entries(body.content)[0];
  const { required = [] } = resolve(spec, schema);
  if (type === "multipart/form-data") return start + required.map((each) => ` -F ${each}=@${each}.png`).join("");
  return `${start} -H 'Content-Type: application/json' -d @request.json`;
}

function operation(spec, path, method, it) {
  const body = it.requestBody;
  const asked = body && Object.values(body.content)[0].schema;
  const good = Object.entries(it.responses).find(([status]) => status.startsWith("2"));
  const answered = good?.[1].content && Object.entries(good[1].content)[0];
  const errors = Object.entries(it.responses).filter(([status]) => status >= "4")
    .map(([status, { description }]) => el("tr", {}, el("th", { scope: "row" }, status), el("td", {}, description)));
  return el("details", { class: "card", "data-testid": "operation", "data-path": path, "data-method": method },
    el("summary", {}, el("span", { class: "method" }, method.toUpperCase()), el("code", {}, path), el("span", { class: "dim" }, it.description ?? "")),
    el("h3", {}, "Call"), el("pre", { tabindex: 0 }, curl(method, path, body, spec)),
    ...(asked ? table(spec, "Sent", asked) ?? [] : []),
    ...(answered?.[0] === "application/json" ? table(spec, `Answer ${good[0]}`, answered[1].schema) ?? [] : [el("h3", {}, `Answer ${good?.[0] ?? ""}`), el("p", {}, answered?.[0] ?? "empty")]),
    el("details", {}, el("summary", {}, "Errors"), el("table", {}, el("tbody", {}, errors))));
}

async function begin() {
  try {
    const spec = await api.openapi();
    show(byId("about"), `${spec.info.description} Version ${spec.info.version}.`);
    show(byId("operations"), Object.entries(spec.paths).flatMap(([path, all]) =>
      Object.entries(all).map(([method, it]) => operation(spec, path, method, it))));
  } catch (problem) {
    byId("problem").hidden = false;
    show(byId("problem"), problem.status === 401 ? "This service asks for its token: open its first page and give it there." : problem.message);
  }
}

begin();
