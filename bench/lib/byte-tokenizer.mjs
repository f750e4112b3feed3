// A tokenizer with one token per byte and one per marker, with the functions that reading actions
// needs: a marker can be sampled as a special token, or spelled out. Not a vocabulary for training.

/** Ids: 0 ends an action, then the markers, then the bytes. */
export function byteTokenizer(markers) {
  const firstByte = markers.length + 1;
  const spellOut = (text) => Uint32Array.from(Buffer.from(text, "utf8"), (byte) => byte + firstByte);
  const pattern = new RegExp(
    `(${markers.map((marker) => marker.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|") || "(?!)"})`,
  );
  return {
    tokenId: (text) => (markers.includes(text) ? markers.indexOf(text) + 1 : null),
    spellOut,
    encode: (text) =>
      Uint32Array.from(
        text.split(pattern).flatMap((piece) => {
          const marker = markers.indexOf(piece);
          return marker === -1 ? [...spellOut(piece)] : [marker + 1];
        }),
      ),
    decode: (ids) => {
      const bytes = new Uint8Array(ids.length);
      const pieces = [];
      let count = 0;
      for (const id of ids) {
        if (id >= firstByte) {
          bytes[count++] = id - firstByte;
        } else if (id > 0) {
          pieces.push(Buffer.from(bytes.subarray(0, count)).toString("utf8"), markers[id - 1]);
          count = 0;
        }
      }
      return pieces.join("") + Buffer.from(bytes.subarray(0, count)).toString("utf8");
    },
  };
}
