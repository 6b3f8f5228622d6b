// Nothing the page shows comes from another host: no fonts, no telemetry, no agent, no proxy.
Scalar.createApiReference("#app", {
  url: "openapi.json",
  defaultOpenAllTags: true,
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  proxyUrl: "",
});
