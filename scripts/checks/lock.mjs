// The lock file, in the form that every machine needs: complete for all platforms, bound to no
// registry, free of install scripts.

/**
 * @typedef {{ readonly optionalDependencies?: Readonly<Record<string, string>>, readonly resolved?: string, readonly hasInstallScript?: boolean, readonly optional?: boolean }} LockedPackage
 */

/**
 * @param {string} text Content of package-lock.json.
 * @returns {Iterable<string>}
 */
export function* findLockProblems(text) {
  const { packages } = /** @type {{ packages: Readonly<Record<string, LockedPackage>> }} */ (JSON.parse(text));
  for (const [path, { optionalDependencies = {}, resolved, hasInstallScript, optional }] of Object.entries(packages)) {
    if (resolved !== undefined)
      yield `package-lock.json says where "${path}" comes from: set omit-lockfile-registry-resolved.`;
    if (hasInstallScript === true && optional !== true)
      yield `package-lock.json: "${path}" runs a script when installed.`;
    for (const name of Object.keys(optionalDependencies)) {
      // npm omits packages that its registry does not have, and `npm ci` then refuses the lock on
      // every machine.
      if (!(`node_modules/${name}` in packages) && !(`${path}/node_modules/${name}` in packages)) {
        yield `package-lock.json lacks "${name}", which "${path}" has on another platform: take a release that has them all.`;
      }
    }
  }
}
