// Builds the records of one task: the member who writes, another member, and the records that goals
// need. Every name, title, address and id is new in the task and belongs to its split. Drawing is
// seeded and follows a law that keeps splits apart: the sum of the parts of a combination
// (positions in lists, pairs of digits) modulo eight determines its split. So all splits use every
// word and every pair of digits, and share no id, no full name, no title and no address.

import { createRandom, type Random } from "../../lib/random.ts";
import {
  type Card,
  type Edition,
  type Format,
  type Member,
  type Order,
  type OrderedBook,
  type OrderStatus,
  type Shop,
} from "./shop.ts";
import { firstNames, lastNames, streetKinds, streetNames, titleEndings, titleOpenings } from "./words.ts";

export type OrderWish = {
  readonly status: OrderStatus;
  /** Days of the order. Default: a likely number for the status. */
  readonly days?: number;
  /** Number of books. Default: 1. */
  readonly books?: number;
  /** True if its first book is signed. Default: false. */
  readonly isSigned?: boolean;
  /** Owner of the order. Default: the member who writes. */
  readonly member?: Member;
};

export class World {
  readonly draw: Draw;
  readonly member: Member;
  readonly stranger: Member;
  readonly #editions = new Map<string, Edition>();
  readonly #orders = new Map<string, Order>();
  readonly #cards = new Map<string, Card>();

  constructor(draw: Draw, options: { readonly needsGold: boolean }) {
    this.draw = draw;
    this.member = this.#member(options.needsGold || draw.chance(0.3) ? "gold" : "silver");
    this.stranger = this.#member(draw.pick(["silver", "gold"]));
  }

  title(): string {
    return `The ${this.draw.pair(titleOpenings, titleEndings).join(" ")}`;
  }

  address(): string {
    const [street, kind] = this.draw.pair(streetNames, streetKinds);
    return `${this.draw.between(10, 99)} ${street} ${kind}`;
  }

  edition(title: string, format: Format, isInStock = true): Edition {
    const price = this.draw.between(...prices[format]);
    const edition = { id: this.draw.id("B"), title, format, price, isInStock };
    this.#editions.set(edition.id, edition);
    return edition;
  }

  order(wish: OrderWish): Order {
    const books: OrderedBook[] = [];
    for (let place = 0; place < (wish.books ?? 1); place++) {
      const edition = this.edition(this.title(), this.draw.pick(["paperback", "hardcover"]));
      books.push({ edition: edition.id, isSigned: place === 0 && (wish.isSigned ?? false), isReturned: false });
    }
    return this.orderOf(books, wish);
  }

  orderOf(books: readonly OrderedBook[], wish: OrderWish): Order {
    const order = {
      id: this.draw.id("W"),
      member: (wish.member ?? this.member).id,
      status: wish.status,
      days: wish.days ?? (wish.status === "delivered" ? this.draw.between(3, 28) : this.draw.between(2, 8)),
      address: this.address(),
      books,
    };
    this.#orders.set(order.id, order);
    return order;
  }

  /** The member's card, created if there is none yet. A member has at most one. */
  card(member: Member = this.member): Card {
    for (const card of this.#cards.values()) if (card.member === member.id) return card;
    const card = { id: this.draw.id("C"), member: member.id, balance: this.draw.between(10, 48) };
    this.#cards.set(card.id, card);
    return card;
  }

  titlesOf(order: Order): readonly string[] {
    return order.books.map((book) => this.editionOf(book).title);
  }

  totalOf(order: Order): number {
    return order.books.reduce((sum, book) => sum + this.editionOf(book).price, 0);
  }

  editionOf(book: OrderedBook): Edition {
    return this.#editions.get(book.edition)!;
  }

  /** The finished records, shuffled, so that positions in lists reveal nothing. */
  shop(): Shop {
    const shuffled = <R extends { readonly id: string }>(records: Iterable<R>): Map<string, R> =>
      new Map(this.draw.shuffle([...records]).map((record) => [record.id, record]));
    return {
      members: shuffled([this.member, this.stranger]),
      editions: shuffled(this.#editions.values()),
      orders: shuffled(this.#orders.values()),
      cards: shuffled(this.#cards.values()),
      declined: new Set(),
      handedOver: new Set(),
      breaches: new Set(),
    };
  }

  #member(tier: Member["tier"]): Member {
    return { id: this.draw.id("M"), name: this.draw.pair(firstNames, lastNames).join(" "), tier };
  }
}

/**
 * Lowest and highest price. Always two digits; formats never share a price, so a swap always
 * changes the amount.
 */
const prices: Readonly<Record<Format, readonly [number, number]>> = {
  paperback: [10, 17],
  audio: [20, 25],
  hardcover: [28, 39],
};

export const kinds = ["question", "cancel", "address", "return", "swap", "top_up", "owner"] as const;
export type Kind = (typeof kinds)[number];

/**
 * 1: one plain goal. 2: one goal with a rule that forbids it, a fact to be found or a change of
 * mind. 3: two goals.
 */
export const levels = [1, 2, 3] as const;
export type Level = (typeof levels)[number];

/** "fresh" is the split of every `fresh:<seed>`. */
export type BookshopSplit = "train" | "validation" | "test" | "fresh";
type IdKind = "M" | "W" | "B" | "C";

const splitsBySum = ["validation", "train", "test", "train", "validation", "train", "fresh", "train"] as const;

/** True if a combination, given by the sum of its parts, belongs to the split. */
export function belongsTo(split: BookshopSplit, sum: number): boolean {
  return splitsBySum[sum % splitsBySum.length] === split;
}

export class Draw {
  readonly split: BookshopSplit;
  readonly #random: Random;
  readonly #used = new Set<string>();

  constructor(split: BookshopSplit, seed: number) {
    this.split = split;
    this.#random = createRandom(seed);
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability;
  }

  /** A uniform integer in [low, high]. */
  between(low: number, high: number): number {
    return low + this.#random.integer(high - low + 1);
  }

  pick<T>(items: readonly T[]): T {
    return this.#random.pick(items);
  }

  shuffle<T>(items: readonly T[]): T[] {
    return this.#random.shuffle(items);
  }

  /** Two items whose combination belongs to the split and was not drawn before. */
  pair<A, B>(first: readonly A[], second: readonly B[]): readonly [A, B] {
    const [a, b] = this.#fresh(first.length, second.length, "pair");
    return [first[a]!, second[b]!];
  }

  /** A typed id such as `#W1042`, new in this task. */
  id(kind: IdKind): string {
    const [high, low] = this.#fresh(90, 100, kind, 10);
    return `#${kind}${high}${String(low).padStart(2, "0")}`;
  }

  /** An amount in [low, high] that belongs to the split. */
  amount(low: number, high: number): number {
    const wanted = this.between(low, high);
    for (let step = 0; ; step++) {
      const amount = low + ((wanted - low + step) % (high - low + 1));
      if (belongsTo(this.split, amount) || step > high - low) return amount;
    }
  }

  #fresh(firstLength: number, secondLength: number, space: string, offset = 0): readonly [number, number] {
    for (;;) {
      const first = offset + this.#random.integer(firstLength);
      const second = this.#random.integer(secondLength);
      const name = `${space}/${firstLength}/${first}/${second}`;
      if (!belongsTo(this.split, first + second) || this.#used.has(name)) continue;
      this.#used.add(name);
      return [first, second];
    }
  }
}
