// Where badges stand: on their object, but never on each other.

import { clamp } from "./dom.js";

const ROUNDS = 40;

/**
 * Places by id, pushed apart where they would cover each other.
 *
 * objects: with id and point; placed: from picture to screen; apart: least distance; size: {width, height}
 * of the screen; edge: least distance from its border. All in px.
 */
export function spread(objects, placed, apart, size, edge) {
  const found = objects.filter((each) => each.point).map((each) => ({ id: each.id, ...placed(each.point) }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const a of found) {
      for (const b of found) {
        if (a.id >= b.id) continue;
        const [dx, dy] = [b.x - a.x || 0.1, b.y - a.y];
        const distance = Math.hypot(dx, dy);
        if (distance >= apart) continue;
        const push = (apart - distance) / 2 / distance;
        a.x -= push * dx;
        a.y -= push * dy;
        b.x += push * dx;
        b.y += push * dy;
      }
    }
    for (const each of found) {
      each.x = clamp(each.x, edge, size.width - edge);
      each.y = clamp(each.y, edge, size.height - edge);
    }
  }
  return new Map(found.map((each) => [each.id, { x: each.x, y: each.y }]));
}
