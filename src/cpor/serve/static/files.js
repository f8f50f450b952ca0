// Which dropped file is what: by its content where that tells, by its name where it does not.

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const MASK_NAME = /instance|mask|label|seg/i;
const DEPTH_NAME = /depth|dist|range/i;
const OTHER_JSON = /relations|points|manifest/i;
const MASK_JSON = /^(objects|scores|sources)\.json$/;

/** Bits a channel and colour type of a PNG; null for other files. */
async function pngKind(file) {
  const head = new Uint8Array(await file.slice(0, 26).arrayBuffer());
  if (head.length < 26 || !PNG.every((byte, i) => head[i] === byte)) return null;
  return { bits: head[24], colour: head[25] === 2 || head[25] === 6 };
}

async function partOf(file) {
  const name = file.name.toLowerCase();
  if (name.endsWith(".npz")) return "amodal";
  if (MASK_JSON.test(name)) return name.slice(0, -5);
  if (name.endsWith(".json")) return OTHER_JSON.test(name) ? null : "camera";
  if (name.endsWith(".txt")) return name.startsWith("request") ? "request" : null;
  const kind = await pngKind(file);
  if (kind === null) return /\.(jpe?g|webp|png)$/.test(name) || file.type.startsWith("image/") ? "rgb" : null;
  if (MASK_NAME.test(name)) return "instances";
  if (DEPTH_NAME.test(name)) return "depth";
  if (kind.colour) return "rgb";
  return kind.bits === 16 ? "depth" : "rgb";
}

/**
 * Sort files into the parts of a scene.
 *
 * Returns { parts: {rgb, depth, …}, request: text or null, ignored: [names] }.
 */
export async function sortFiles(files) {
  const parts = {};
  const ignored = [];
  let request = null;
  for (const file of files) {
    const part = await partOf(file);
    if (part === "request") request = (await file.text()).trim().slice(0, 200) || null;
    else if (part === null || parts[part]) ignored.push(file.name);
    else parts[part] = file;
  }
  return { parts, request, ignored };
}

const entriesOf = (reader) => new Promise((found, failed) => reader.readEntries(found, failed));
const fileOf = (entry) => new Promise((found, failed) => entry.file(found, failed));

async function walk(entry) {
  if (entry.isFile) return [await fileOf(entry)];
  const files = [];
  const reader = entry.createReader();
  for (let some = await entriesOf(reader); some.length > 0; some = await entriesOf(reader)) {
    for (const each of some) if (each.isFile) files.push(await fileOf(each));
  }
  return files;
}

/** The files of a drop; of a dropped folder, those directly in it. */
export async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files];
  return (await Promise.all(entries.map(walk))).flat();
}

/** What became of dropped files, where it is not plain. */
export function whatOf({ parts: dropped, ignored }, all) {
  const said = [];
  const joined = Object.values(dropped).map((file) => file.name).join(", ");
  if (!dropped.rgb) said.push(`Added to ${all.rgb.name}: ${joined}.`);
  if (ignored.length > 0) said.push(`Not used: ${ignored.join(", ")}.`);
  return said.join(" ") || null;
}
