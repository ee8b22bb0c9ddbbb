// Elements of the page, and values as text.

export const byId = (id) => document.getElementById(id);

export function element(kind, properties = {}, ...children) {
  const made = document.createElement(kind);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export const bytes = (count) =>
  count < 1000 ? `${count} B` : count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;

export function age(created) {
  const seconds = Math.max(0, (Date.now() - Date.parse(created)) / 1000);
  if (!Number.isFinite(seconds)) return "";
  for (const [size, name] of [[31557600, "year"], [2629800, "month"], [86400, "day"], [3600, "hour"], [60, "minute"]]) {
    const count = Math.floor(seconds / size);
    if (count >= 1) return `${count} ${name}${count > 1 ? "s" : ""}`;
  }
  return "just now";
}

export const percent = (share) => `${Math.round(100 * share)}%`;
// Without the sign of a rounded zero.
export const decimal = (value) => value.toFixed(2).replace(/^-(0\.00)$/, "$1");
export const labelText = (label) => (typeof label === "string" ? label : JSON.stringify(label));
