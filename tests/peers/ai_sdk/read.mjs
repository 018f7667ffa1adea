// Reads a UI message stream a line from standard input, and answers each with the message that a version of `ai` makes of it.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.argv[2], "package.json"));
const majors = Object.fromEntries(
  await Promise.all([5, 6, 7].map(async (n) => [n, await import(pathToFileURL(require.resolve(`ai${n}`)).href)])),
);

const read = async ({ version, text }) => {
  const { DefaultChatTransport, readUIMessageStream } = majors[version];
  const response = new Response(text, { headers: { "content-type": "text/event-stream" } });
  const transport = new DefaultChatTransport({ fetch: async () => response });
  const stream = await transport.sendMessages({ chatId: "c", messages: [], trigger: "submit-message" });
  let message = null;
  const errors = [];
  const onError = (error) => errors.push(String(error));
  for await (const each of readUIMessageStream({ stream, onError })) message = structuredClone(each);
  return { message, errors };
};

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify(await read(JSON.parse(line))));
  } catch (error) {
    console.log(JSON.stringify({ message: null, errors: [String(error)] }));
  }
}
