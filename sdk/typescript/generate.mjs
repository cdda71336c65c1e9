// Writes src/api.ts, or with a path as the argument that file, from the OpenAPI document.
// A list that grows (x-extensible-enum) becomes its present values, and any other string.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const document = JSON.parse(await readFile(new URL('../../internal/httpapi/openapi.json', import.meta.url), 'utf8'));
const { factory } = ts;

function literal(value) {
  return factory.createLiteralTypeNode(factory.createStringLiteral(value));
}

const anyOther = factory.createIntersectionTypeNode([
  factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword),
  factory.createTypeLiteralNode([]),
]);

const ast = await openapiTS(document, {
  alphabetize: true,
  transform(schema) {
    const values = schema['x-extensible-enum'];
    return values && factory.createUnionTypeNode([...values.map(literal), factory.createParenthesizedType(anyOther)]);
  },
});
const head = '// Made from internal/httpapi/openapi.json by npm run generate. Do not edit.\n\n';
await writeFile(process.argv[2] ?? new URL('src/api.ts', import.meta.url), head + astToString(ast));
