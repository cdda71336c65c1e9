import { createHash, randomBytes, randomUUID } from 'node:crypto';

const label = 'homeward/stamp/v1';

/**
 * Makes an idempotency key. Store it before the call. With home, a region's code that Homeward's
 * operator has, the key carries its home (it is stamped), which saves its first use a look-up:
 * newKey(homeOf(charge.id)) is at the home of a charge, as a refund of it should be. Without home,
 * the region of the first use becomes the home.
 */
export function newKey(home?: number): string {
  return home === undefined ? randomUUID() : stamp(home, randomBytes(10));
}

/** The code of the home region in a stamped key or an object's id; undefined of any other text. */
export function homeOf(text: string): number | undefined {
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text)) return readStamp(Buffer.from(text.replaceAll('-', ''), 'hex'));
  const id = /^[a-z]{1,8}_([0-9a-v]{26})$/.exec(text)?.[1];
  return id === undefined ? undefined : readStamp(fromBase32Hex(id));
}

/** Makes the stamped key of these ten random bytes. */
export function stamp(home: number, random: Uint8Array): string {
  if (!Number.isInteger(home) || home < 1 || home > 65535) throw new RangeError("homeward: a region's code is 1 to 65535");
  const bits = Buffer.alloc(12);
  bits.set(random);
  bits.writeUInt16BE(home, 10);
  bits[6] = (bits[6]! & 0x0f) | 0x80; // version 8
  bits[8] = (bits[8]! & 0x3f) | 0x80; // variant 10
  return Buffer.concat([bits, check(bits)]).toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

function readStamp(bits: Buffer | undefined): number | undefined {
  if (bits === undefined || bits[6]! >> 4 !== 8 || bits[8]! >> 6 !== 0b10 || !bits.subarray(12).equals(check(bits.subarray(0, 12)))) return undefined;
  return bits.readUInt16BE(10) || undefined;
}

function check(bits: Uint8Array): Buffer {
  return createHash('sha256').update(label).update(bits).digest().subarray(0, 4);
}

/** RFC 4648, section 7, of 16 bytes; undefined with spare bits: an id has one spelling. */
function fromBase32Hex(text: string): Buffer | undefined {
  let value = 0n;
  for (const c of text) value = (value << 5n) | BigInt(parseInt(c, 32));
  if (value & 0b11n) return undefined;
  return Buffer.from((value >> 2n).toString(16).padStart(32, '0'), 'hex');
}
