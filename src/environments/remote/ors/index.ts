// The client of the Open Reward Standard: environments that an ORS server offers.

export { orsService, type OrsOptions } from "./ors-service.ts";
