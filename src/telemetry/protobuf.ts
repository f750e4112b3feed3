// Writes protocol-buffer fields, for the event files of TensorBoard and W&B.

/** Field numbers below 16 take one byte, those below 2,048 two. */
function tag(number: number, wireType: number): Buffer {
  return varint(number * 8 + wireType);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

/** A field with a whole number of at least 0. */
export function varintField(number: number, value: number): Buffer {
  return Buffer.concat([tag(number, 0), varint(value)]);
}

export function doubleField(number: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([tag(number, 1), bytes]);
}

export function floatField(number: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([tag(number, 5), bytes]);
}

export function bytesField(number: number, content: Uint8Array): Buffer {
  return Buffer.concat([tag(number, 2), varint(content.length), content]);
}

export function textField(number: number, text: string): Buffer {
  return bytesField(number, Buffer.from(text));
}

/** A field with a message of these fields. */
export function message(number: number, ...fields: readonly Uint8Array[]): Buffer {
  return bytesField(number, Buffer.concat(fields));
}
