// Numbers as decimal digits, straight into bytes: a text for each is what costs most where there are thousands.

const zero = 48;

/** Writes a whole number from 0 to 2^53 - 1 from `start` on. Returns where it ends. */
export function writeDigits(bytes: Uint8Array, start: number, number: number): number {
  const end = start + digits(number);
  let rest = number;
  for (let place = end - 1; place >= start; place--) {
    const tenth = Math.floor(rest / 10);
    bytes[place] = zero + (rest - tenth * 10);
    rest = tenth;
  }
  return end;
}

function digits(number: number): number {
  if (number < 10) return 1;
  if (number < 100) return 2;
  if (number < 1000) return 3;
  if (number < 10_000) return 4;
  if (number < 100_000) return 5;
  if (number < 1_000_000) return 6;
  return String(number).length;
}
