// Builds the records of one task: the member who writes, another member, and what goals ask for. Every name, title,
// address and id is new in the task and belongs to its split.

import type { Draw } from "./draw.ts";
import { type Card, type Edition, type Format, formats, type Member, type Order, type OrderedBook } from "./shop.ts";
import type { OrderStatus, Shop } from "./shop.ts";
import { firstNames, lastNames, streetKinds, streetNames, titleEndings, titleOpenings } from "./words.ts";

export type OrderWish = {
  readonly status: OrderStatus;
  /** Default: a likely number for the status. */
  readonly days?: number;
  /** Default: 1. */
  readonly books?: number;
  /** Whether its first book is signed. Default: false. */
  readonly isSigned?: boolean;
  /** Default: the member who writes. */
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

  edition(title: string, format: Format, options: { readonly isInStock?: boolean } = {}): Edition {
    const price = priceOf(this.draw, format);
    const edition = { id: this.draw.id("B"), title, format, price, isInStock: options.isInStock ?? true };
    this.#editions.set(edition.id, edition);
    return edition;
  }

  /** A title in two or three formats, the wanted one among them; prices differ. */
  editionsOf(title: string, wanted: readonly { readonly format: Format; readonly isInStock: boolean }[]): Edition[] {
    const made = wanted.map(({ format, isInStock }) => this.edition(title, format, { isInStock }));
    const rest = formats.filter((format) => wanted.every((one) => one.format !== format));
    const other = rest[0];
    if (other !== undefined && this.draw.chance(0.5)) this.edition(title, other, { isInStock: this.draw.chance(0.5) });
    return made;
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
      days: wish.days ?? daysOf(this.draw, wish.status),
      address: this.address(),
      books,
    };
    this.#orders.set(order.id, order);
    return order;
  }

  /** The member's own card, or a new one of somebody else. A member has at most one. */
  card(member: Member = this.member): Card {
    for (const card of this.#cards.values()) if (card.member === member.id) return card;
    const card = { id: this.draw.id("C"), member: member.id, balance: this.draw.between(10, 48) };
    this.#cards.set(card.id, card);
    return card;
  }

  titlesOf(order: Order): readonly string[] {
    return order.books.map((book) => this.editionOf(book).title);
  }

  editionOf(book: OrderedBook): Edition {
    return this.#editions.get(book.edition)!;
  }

  /** The finished records, shuffled, so that places in lists tell nothing. */
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

/** Two digits always; formats never share a price, so a swap always has something to tell. */
function priceOf(draw: Draw, format: Format): number {
  switch (format) {
    case "paperback":
      return draw.between(10, 17);
    case "audio":
      return draw.between(20, 25);
    case "hardcover":
      return draw.between(28, 39);
    default:
      return format satisfies never;
  }
}

function daysOf(draw: Draw, status: OrderStatus): number {
  return status === "delivered" ? draw.between(3, 28) : draw.between(2, 8);
}
