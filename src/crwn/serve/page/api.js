// Requests to the service: JSON in and out, with the token if there is one; errors have the service's message.

export const token = {
  get: () => sessionStorage.getItem("crwn-token") || "",
  set: (value) => sessionStorage.setItem("crwn-token", value),
};

export async function request(method, path, { body, contentType, signal } = {}) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = contentType || "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: contentType || body === undefined ? body : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service cannot be reached.");
  }
  if (response.status === 204) return null;
  const data = await response.json().catch(() => null);
  if (!response.ok) throw new Error(data?.error?.message || `The service returned status ${response.status}.`);
  return data;
}

export const taskPath = (name) => `/v1/tasks/${encodeURIComponent(name)}`;
