// The client of the Open Reward Standard: environments behind an ORS server.

export { orsService, type OrsOptions } from "./ors-service.ts";
