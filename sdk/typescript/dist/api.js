// Made from internal/httpapi/openapi.json by npm run generate. Do not edit.
export {};
