/** What options are read against: the environment variables that hold keys, and the folder that relative paths start from. */
export type Surroundings = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
};
