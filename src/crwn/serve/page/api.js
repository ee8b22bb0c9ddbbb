// Asking the service: JSON in and out, the token where there is one, errors as one line of text.

export const token = {
  get: () => sessionStorage.getItem("crwn-token") || "",
  set: (value) => sessionStorage.setItem("crwn-token", value),
};

export async function ask(method, address, { body, kind, signal } = {}) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = kind || "application/json";
  let answer;
  try {
    answer = await fetch(address, { method, headers, signal, body: kind || body === undefined ? body : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer.");
  }
  if (answer.status === 204) return null;
  const data = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(data?.error?.message || `The service answered ${answer.status}.`);
  return data;
}

export const taskAddress = (name) => `/v1/tasks/${encodeURIComponent(name)}`;

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
export const labelText = (label) => (typeof label === "string" ? label : JSON.stringify(label));
