// Unicode normal forms, in the order a tokenizer asks for them.

export type NormalForm = "NFC" | "NFD" | "NFKC" | "NFKD";

export function normalizeText(text: string, forms: readonly NormalForm[]): string {
  return forms.reduce((normal, form) => normal.normalize(form), text);
}
