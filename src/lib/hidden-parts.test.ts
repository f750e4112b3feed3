import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { hasHttpCredentials, hiddenMark, hideSecrets, isSecretName, secretsInText } from "./hidden-parts.ts";

const canary = "c4n4ryV4lue/+=%2F";

test.each([
  ..."key KEY api_key apiKey APIKey api-key x-api-key apikey API%5FKEY subscription-key Ocp-Apim-Subscription-Key".split(
    " ",
  ),
  ..."token access_token accessToken accesstoken authtoken refresh_token X-Amz-Security-Token id_token".split(" "),
  ..."secret client_secret clientSecret clientsecret password passwd pwd passphrase pass".split(" "),
  ..."sig signature X-Amz-Signature X-Goog-Signature X-Amz-Credential auth authorization jwt bearer".split(" "),
  ..."AWSAccessKeyId SharedAccessKey sharedaccesskey private_key code session sid key[] token.value".split(" "),
])("%s names a secret", (name) => expect(isSecretName(name)).toBe(true));

test.each([
  ..."monkey keyboard keyword turkey tokenizer max_tokens author authority design passage compass signal".split(" "),
  ..."reward capacity deterministic text task seed version api-version model secretary passenger bypass".split(" "),
  ..."key-env token_type key_name api-key-env password-file encode encoding sessions hockey".split(" "),
])("%s names none", (name) => expect(isSecretName(name)).toBe(false));

describe("hideSecrets()", () => {
  it.each([
    ["http://h:1/mcp?api_key=abc&v=1", "http://h:1/mcp?api_key=***&v=1"],
    ["mcp:https://h/mcp?v=1&X-Amz-Signature=a/b%2F=#x", "mcp:https://h/mcp?v=1&X-Amz-Signature=***#x"],
    ["http://h/#access_token=abc", "http://h/#access_token=***"],
    ["http://a?key=x,y,https://b?v=1&sig=z", "http://a?key=***,https://b?v=1&sig=***"],
    ["mlflow:http://h?token=x,trackio:http://g", "mlflow:http://h?token=***,trackio:http://g"],
    ["http://u:p@h:1/v1", "http://***@h:1/v1"],
    ["nats://u:p@h:4222/q", "nats://***@h:4222/q"],
    ["mcp:psql postgres://u:p@h/db", "mcp:psql postgres://***@h/db"],
    ["mcp:API_KEY=abc V=1 npx s --root {folder}", "mcp:API_KEY=*** V=1 npx s --root {folder}"],
    ["mcp:API_KEY=$API_KEY npx s", "mcp:API_KEY=$API_KEY npx s"],
    ["mcp:npx s --token abc --port 1", "mcp:npx s --token *** --port 1"],
    ["mcp:npx s --token=abc --port=1", "mcp:npx s --token=*** --port=1"],
    [
      'mcp:npx r http://h --header "Authorization: Bearer abc" -v',
      'mcp:npx r http://h --header "Authorization: ***" -v',
    ],
    ['mcp:npx r --header "Authorization: Bearer $KEY"', 'mcp:npx r --header "Authorization: Bearer $KEY"'],
    ["mcp:npx r -H X-Api-Key:abc", "mcp:npx r -H X-Api-Key:***"],
    ["mcp:URL='http://h?api_key=abc' npx s", "mcp:URL='http://h?api_key=***' npx s"],
    ["http://h?next=http://g?key=abc", "http://h?next=http://g?key=***"],
    ["http://h?next=http%3A%2F%2Fu%3Ap%40g", "http://h?next=***"],
    ["http://h?x=sk-abcdef", "http://h?x=***"],
    ["http://h?key=it's", "http://h?key=***"],
  ])("%s", (text, shown) => {
    expect(hideSecrets(text)).toBe(shown);
    expect(hideSecrets(shown)).toBe(shown);
  });

  it.each([
    "bookshop",
    "./my-env.ts",
    "@scope/pkg/env.ts",
    "http://h/@me/mcp?reward=last&capacity=4",
    "tau2-bench/retail",
  ])("leaves %s as it is", (text) => expect(hideSecrets(text)).toBe(text));

  it("reads hostile texts of a million characters within the time of a test, which a quadratic reader would exceed", () => {
    for (const unit of ["a", "a=", "?key=", "--a ", "a: ", '"', "a://", "a://@", "key:", "=&", "--key '", ",a:"]) {
      expect(typeof hideSecrets(unit.repeat(Math.ceil(1_000_000 / unit.length)))).toBe("string");
    }
  });

  const name = fc.constantFrom(
    "api_key",
    "token",
    "X-Amz-Signature",
    "password",
    "sig",
    "accessToken",
    "client-secret",
  );
  const plain = fc.stringMatching(/^[a-z]{1,8}$/).filter((word) => !isSecretName(word));
  it("hides the value of every secret parameter wherever it stands, and tells it", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(plain, plain)), name, fc.array(fc.tuple(plain, plain)), (before, secret, after) => {
        const query = [...before, [secret, canary] as const, ...after]
          .map(([key, value]) => `${key}=${value}`)
          .join("&");
        const text = `openenv:wss://host:8000/path?${query}`;
        const shown = hideSecrets(text);
        expect(shown).toContain(`${secret}=${hiddenMark}`);
        expect(shown).not.toContain("c4n4ry");
        expect(text).toBe(shown.replace(hiddenMark, () => canary));
        expect(secretsInText(text)).toContain(canary);
      }),
    );
  });
});

test("hasHttpCredentials() is for addresses that are requested, in a command too", () => {
  for (const text of ["http://u@h", "WSS://u:p@h/x", "npx r https://:p@h", "http://u:p@h,http://g"])
    expect(hasHttpCredentials(text), text).toBe(true);
  for (const text of ["nats://u:p@h", "http://h/@me", "http://h?mail=a@b", "u:p@h", "postgres://u:p@h"])
    expect(hasHttpCredentials(text), text).toBe(false);
});
